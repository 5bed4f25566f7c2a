# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="attr-defined, no-untyped-def"
"""Recurrent layers that keep the texts of a row apart: Gated DeltaNet, Mamba, short convolutions.

A state, and a causal convolution, go on from one text to the next where a row has several.
Attention knows where texts end, and transformers' layers do so if kernels are installed and told
twice.  Here a layer is called by `run_texts_apart`, which gives each text a row of its own:

    hidden_states = self.linear_attn(            hidden_states = run_texts_apart(
        hidden_states, ...                  ->       self.linear_attn, hidden_states, ...
    )                                            )

Rows are padded to the longest text, inside of these layers alone, and behind it: so nothing of a
text depends on its padding, under any kernel.

Where texts end is told by `cu_seq_lens_q`, which the collator has for FlashAttention, or else read
from `position_ids` that restart.  To read them a step waits for the device, as it does in
transformers' attention.  With packed texts no cache is made.
"""

from typing import Any

import torch
from torch import nn
from transformers.modeling_flash_attention_utils import _index_first_axis, _pad_input

from patchgen.edits import Hole, edit, new, old

__all__ = ["TellsTexts", "TellsTextsOfKwargs", "run_texts_apart"]


def tell_texts(
    batch: torch.Size,
    attention_mask: torch.Tensor | None,
    position_ids: torch.Tensor | None,
    past_key_values: Any,
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """`kwargs` with the lengths of the texts, as attention is told them, if positions have any."""
    is_told = kwargs.get("cu_seq_lens_q") is not None
    if is_told or position_ids is None or position_ids.ndim != 2 or batch[1] == 1:
        return kwargs
    if attention_mask is not None or past_key_values is not None:  # as attention reads positions
        return kwargs
    is_first = nn.functional.pad(position_ids.diff() != 1, (1, 0), value=True).expand(batch)
    starts = is_first.flatten().nonzero().squeeze(1)
    cu_seqlens = nn.functional.pad(starts, (0, 1), value=batch.numel()).int()
    kwargs = kwargs | dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), cu_seqlens)
    return kwargs | dict.fromkeys(("max_length_q", "max_length_k"), int(cu_seqlens.diff().max()))


def run_texts_apart(
    layer: nn.Module,
    hidden_states: torch.Tensor,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """What `layer` gives for (B, L, D) states, of which each text has a row of its own."""
    if cu_seq_lens_q is None:
        return layer(hidden_states, **kwargs)
    if any(kwargs.get(name) is not None for name in ("past_key_values", "cache_params", "cache")):
        raise ValueError("texts in one row need use_cache=False")
    for name in {"attention_mask", "conv_mask"} & kwargs.keys():
        kwargs[name] = None
    for name in {"cu_seq_lens_k", "max_length_k"} & kwargs.keys():
        del kwargs[name]
    tokens = hidden_states.flatten(0, 1)
    places = torch.arange(len(tokens), device=tokens.device)
    texts = torch.bucketize(places, cu_seq_lens_q[1:], right=True)
    max_seqlen = max_length_q or int(cu_seq_lens_q.diff().max())
    places = places - cu_seq_lens_q[texts] + texts * max_seqlen
    rows = _pad_input(tokens, places, len(cu_seq_lens_q) - 1, max_seqlen)
    output = _index_first_axis(layer(rows, **kwargs), places)
    return output.view(*hidden_states.shape[:2], -1)


class TellsTexts:
    @edit("forward")
    def tell_texts(
        self, use_cache, attention_mask, position_ids, inputs_embeds, kwargs, cache: Hole
    ) -> None:
        with old:
            if use_cache and cache is None:
                ...
        with new:
            kwargs = tell_texts(
                inputs_embeds.shape[:2], attention_mask, position_ids, cache, kwargs
            )
            if use_cache and cache is None and kwargs.get("cu_seq_lens_q") is None:
                ...


class TellsTextsOfKwargs:
    # A model without attention takes positions among its further arguments.
    @edit("forward")
    def tell_texts(self, use_cache, attention_mask, inputs_embeds, kwargs, cache: Hole) -> None:
        with old:
            if use_cache and cache is None:
                ...
        with new:
            position_ids = kwargs.pop("position_ids", None)
            kwargs = tell_texts(
                inputs_embeds.shape[:2], attention_mask, position_ids, cache, kwargs
            )
            if use_cache and cache is None and kwargs.get("cu_seq_lens_q") is None:
                ...
