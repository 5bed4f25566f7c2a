"""llama with flash, written by `patchgen new`.

No padding is computed where attention takes the lengths of texts: under FlashAttention and under "varlen", which
`import patchgen.runtime` registers. Real tokens are taken out of the batch once, and put back after the last layer;
packed texts are told apart by positions that restart. What comes out at real tokens is the parent's own; at padding
it is zeros. Under any other `attn_implementation` it is the parent. See `patchgen.parts.flash`.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.flash import KeepsPadding, LabelsWithinTexts, PaddingFreeDecoder


class LlamaModel(PaddingFreeDecoder, llama.LlamaModel):
    pass


class LlamaForCausalLM(LabelsWithinTexts, llama.LlamaForCausalLM):
    pass


class LlamaForQuestionAnswering(KeepsPadding, llama.LlamaForQuestionAnswering):
    pass
