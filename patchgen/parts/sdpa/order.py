# ruff: noqa: B018, F841  (edits are read, not run)
"""No mask where the order of tokens says all, compiled or not."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

from patchgen.edits import edit, new, old


# For the model of a causal decoder: its layers get no mask where the order of tokens says all, compiled or not.
# transformers looks for packed rows among the positions; here it gets the caller's, and none where the model counts.
# No docstring: the model has its own.
class CausalWithoutMask:
    @edit("forward")
    def count_no_position_before_the_mask(
        self: Any, position_ids: Any, past_key_values: Any, past_seen_tokens: Any, inputs_embeds: Any
    ) -> None:
        with old:
            if position_ids is None:
                past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
                position_ids = position_ids.unsqueeze(0)
        with new:
            pass

    @edit("forward")
    def count_positions_behind_the_mask(
        self: Any, position_ids: Any, past_key_values: Any, inputs_embeds: Any, hidden_states: Any
    ) -> None:
        with old:
            hidden_states = inputs_embeds
        with new:
            if position_ids is None:
                before = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + before
                position_ids = position_ids.unsqueeze(0)

            hidden_states = inputs_embeds

    @edit("forward")
    def ask_whether_a_mask_is_needed(self) -> None:
        with old:
            create_causal_mask
        with new:
            causal_mask_if_needed


# The same where some layers have a sliding window: they get no mask where every key is in it.
class SlidingWithoutMask(CausalWithoutMask):
    @edit("forward")
    def ask_whether_a_window_is_needed(self) -> None:
        with old:
            create_sliding_window_causal_mask
        with new:
            sliding_window_mask_if_needed


def causal_mask_if_needed(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None = None,
    **others: Any,
) -> Any:
    """None where `is_causal` of SDPA says all, under torch.compile too; else the mask of transformers."""
    given = (attention_mask, past_key_values, position_ids)
    if not others and order_says_all(config, inputs_embeds, *given):
        return None
    return create_causal_mask(config, inputs_embeds, *given, **others)


def sliding_window_mask_if_needed(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None = None,
    **others: Any,
) -> Any:
    """None where `is_causal` of SDPA says all and the window holds every key; else the mask of transformers."""
    given = (attention_mask, past_key_values, position_ids)
    window = getattr(config, "sliding_window", None)
    inside = window is not None and inputs_embeds.shape[1] < window
    if not others and inside and order_says_all(config, inputs_embeds, *given):
        return None
    return create_sliding_window_causal_mask(config, inputs_embeds, *given, **others)


def order_says_all(
    config: PreTrainedConfig,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    past_key_values: Cache | None,
    position_ids: torch.Tensor | None,
) -> bool:
    """Whether each query sees the keys up to its own, all and only these, as can be told without reading values.

    Not with keys from before, padding, or positions that may tell of packed rows (transformers asks them only where
    there is no cache).  With `config.assume_right_padding`, padding is taken to stand on the right: no real token
    sees it then.  Outputs of padding differ, and a loss over real tokens does not.  Padding before a real token is an
    error when it runs.
    """
    if config._attn_implementation != "sdpa" or not getattr(config, "is_causal", True):
        return False
    if past_key_values is None:
        if position_ids is not None and attention_mask is None:
            return False
    elif not isinstance(past_key_values, DynamicCache):
        return False  # transformers knows whether the slots of a static cache are filled
    elif any(layer.get_seq_length() for layer in past_key_values.layers):
        return False
    if attention_mask is None:
        return True
    if not getattr(config, "assume_right_padding", False) or attention_mask.dim() != 2:
        return False
    if attention_mask.shape[1] != inputs_embeds.shape[1]:
        return False
    # Without a wait for the device, under torch.compile too.
    real = attention_mask.bool()
    torch._assert_async((real[:, :-1] | ~real[:, 1:]).all(), "assume_right_padding: padding before a real token")
    return True
