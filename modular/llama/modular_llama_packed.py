"""llama with flash, written by `patchgen new`.

No padding is computed where attention takes the lengths of texts: under FlashAttention and under "varlen", which
`import patchgen.runtime` registers. Real tokens are taken out of the batch once, and put back after the last layer.
Texts of one row stay apart, in attention and in the loss, where `position_ids` restart, or by the collator's
`cu_seq_lens_q`. What comes out at real tokens is the parent's own; at padding it is zeros. See
`patchgen.parts.flash`.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.flash import KeepsPadding, LabelsWithinTexts, PaddingFreeDecoder


class LlamaModel(PaddingFreeDecoder, llama.LlamaModel):
    pass


class LlamaForCausalLM(LabelsWithinTexts, llama.LlamaForCausalLM):
    pass


class LlamaForQuestionAnswering(KeepsPadding, llama.LlamaForQuestionAnswering):
    pass
