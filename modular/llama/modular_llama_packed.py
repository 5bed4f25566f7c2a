"""Llama that computes no padding, where attention takes the lengths of texts.

For those who fine-tune it on texts of different lengths, padded or packed: layers run on real tokens alone, and each
text attends to itself.  What comes out at real tokens is Llama's own; at padding it is zeros.

This is so under FlashAttention (`attn_implementation="flash_attention_2"` and later, kernels of the Hub) and under
"varlen", which `import patchgen.runtime` registers: torch's own kernels on a GPU, and one call of SDPA a layer elsewhere.
Under any other implementation it is Llama.  See `patchgen.parts.flash`.

Texts are told apart by `attention_mask`, or by `position_ids` that restart (as `DataCollatorWithFlattening` and TRL's
`padding_free` give them).  In training no cache is made; elsewhere pass `use_cache=False`.  With a cache, and so in
`generate`, it is Llama.  So is its head for questions, whose softmax runs over padding too.
"""

from patchgen.parts.flash import KeepsPadding, LabelsWithinTexts, PaddingFreeDecoder
from transformers.models.llama import modeling_llama as llama


class LlamaModel(PaddingFreeDecoder, llama.LlamaModel):
    pass


class LlamaForCausalLM(LabelsWithinTexts, llama.LlamaForCausalLM):
    pass


class LlamaForQuestionAnswering(KeepsPadding, llama.LlamaForQuestionAnswering):
    pass
