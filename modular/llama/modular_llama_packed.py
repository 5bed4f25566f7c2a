"""Llama that computes no padding, and keeps packed texts apart without a mask.

For those who fine-tune it on texts of different lengths, padded or packed: embeddings and layers run on real tokens
alone, each text attends to itself by FlashAttention-2 where the GPU has it, and no mask of tokens by tokens is made.
What comes out at real tokens is Llama's own; at padding it is zeros.  See `patchgen.parts.flash`.

Texts are told apart by `attention_mask`, by `position_ids` that restart, or by `cu_seq_lens_q` (both as
`DataCollatorWithFlattening` and TRL's `padding_free` give them).  In training no cache is made unless `use_cache=True`
is passed; elsewhere pass `use_cache=False`.  With a cache, and so in `generate`, it is Llama.  So is its head for
questions, whose softmax runs over padding too.

`attn_implementation` is "sdpa" (the default) or "eager", which computes padding and gives attention weights.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.flash import AttendsInSequences, FlashOrEager, PaddingFreeDecoder, ReadsAllPositions


class LlamaAttention(AttendsInSequences, llama.LlamaAttention):
    pass


class LlamaPreTrainedModel(FlashOrEager, llama.LlamaPreTrainedModel):
    pass


class LlamaModel(PaddingFreeDecoder, llama.LlamaModel):
    pass


class LlamaForQuestionAnswering(ReadsAllPositions, llama.LlamaForQuestionAnswering):
    pass
