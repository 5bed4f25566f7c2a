# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="attr-defined"
"""Attention that looks both ways in a model that was trained to look back: for embeddings.

As LLM2Vec, GritLM and NV-Embed have it, and models of diffusion over text.  Of each file
`self.is_causal` becomes False, and what makes the masks is of this module:

    class LlamaAttention(LooksBothWays, llama.LlamaAttention): ...


    class LlamaModel(llama.LlamaModel):
        @edit("forward")
        def look_both_ways(self):
            with old:
                llama.create_causal_mask(...)
            with new:
                bidirectional_mask(...)

A token sees every token of its text that is not padding, under eager attention, SDPA, flex and
flash attention alike:

- texts in one row, which `position_ids` tell apart, do not see each other, as in transformers'
  causal models: if there is no `attention_mask`.  `config.is_causal = False` of transformers
  forgets that, except under flash attention;
- a sliding window of `n` reaches `n - 1` tokens to either side, as in flash attention.  Masks of
  transformers with `config.is_causal = False` reach `n`.

A cache that has tokens is refused: they have not seen those that follow.  So `generate` is.
Weights are the parent's, and so are the heads: the loss of `ForCausalLM` predicts the next token,
as LLM2Vec's masked training does, of which a masked token is predicted by the one before.
"""

from typing import Any

import torch
from transformers.masking_utils import (
    and_masks,
    create_bidirectional_mask,
    find_packed_sequence_indices,
    packed_sequence_mask_function,
    sliding_window_bidirectional_overlay,
)

from patchgen.edits import Hole, edit, new, old


class LooksBothWays:
    @edit("__init__")
    def look_both_ways(self, causal: Hole) -> None:
        with old:
            self.is_causal = causal
        with new:
            self.is_causal = False


def bidirectional_mask(
    config: Any,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Any = None,
    position_ids: torch.Tensor | None = None,
    and_mask_function: Any = None,
    allow_is_causal_skip: bool = True,
) -> Any:
    """The mask with which a token sees every token of its text, padding left out.

    Without `allow_is_causal_skip` it is a tensor also where every token sees all.
    """
    if past_key_values is not None and past_key_values.get_seq_length() > 0:
        raise ValueError(
            "a model that looks both ways takes no tokens from a cache: they have not seen those "
            "that follow"
        )
    masks = [] if and_mask_function is None else [and_mask_function]
    if position_ids is not None and attention_mask is None:
        texts = find_packed_sequence_indices(position_ids.expand(len(inputs_embeds), -1))
        masks += [packed_sequence_mask_function(texts)] if texts is not None else []
    return create_bidirectional_mask(
        config,
        inputs_embeds,
        attention_mask,
        past_key_values=past_key_values,
        and_mask_function=and_masks(*masks) if masks else None,
        allow_is_bidirectional_skip=allow_is_causal_skip,
    )


def bidirectional_sliding_window_mask(config: Any, *args: Any, **kwargs: Any) -> Any:
    """`bidirectional_mask` of a text in which a token sees `sliding_window - 1` to either side."""
    window = sliding_window_bidirectional_overlay(config.sliding_window - 1)
    return bidirectional_mask(config, *args, and_mask_function=window, **kwargs)
