"""Texts of a batch without padding, and attention that gives each of them a row of its own."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any, NamedTuple

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
from transformers.modeling_flash_attention_utils import _pad_input

from patchgen.parts.flash.lengths import bounds_of_texts

__all__ = ["Texts", "attend_in_rows", "make_texts", "unpad"]


def unpad(states: torch.Tensor, places_T: torch.Tensor) -> torch.Tensor:
    """The states at some places of a batch, in one row."""
    return states.flatten(0, 1).index_select(0, places_T).unsqueeze(0)


def attend_in_rows(interface, module, query, key, value, attention_mask, rows=None, **kwargs):
    """Attention in a batch where each text has a row; `rows` says where the tokens stand there."""
    if rows is None:
        return interface(module, query, key, value, attention_mask, **kwargs)
    states = (each[0].transpose(0, 1) for each in (query, key, value))
    in_rows = (_pad_input(each, *rows).transpose(1, 2) for each in states)
    attn_output, attn_weights = interface(module, *in_rows, attention_mask, **kwargs)
    return unpad(attn_output, rows[0]), attn_weights


class Texts(NamedTuple):
    """Where tokens stand in a batch, and in one where each text has a row, padded at the right."""

    places_T: torch.Tensor
    rows: tuple[torch.Tensor, int, int]  # the places there, how many rows, and how long
    mask: torch.Tensor | None  # of padding in these rows
    kwargs: dict[str, Any]  # of attention

    def in_rows(self, states: torch.Tensor) -> torch.Tensor:
        """The states of a batch, a text in each row."""
        return _pad_input(unpad(states, self.places_T)[0], *self.rows)


def make_texts(
    config: Any, batch: torch.Size, mask: Any, position_ids: Any, told: Any = None
) -> Texts | None:
    """The texts of a batch; None where each row is one, without padding."""
    places_T, cu_seqlens_N1, max_seqlen = bounds_of_texts(batch, mask, position_ids, told)
    count, lengths_N = len(cu_seqlens_N1) - 1, cu_seqlens_N1.diff()
    if len(places_T) in (0, batch.numel()) and count == batch[0]:
        return None
    ahead_N = torch.arange(count, device=places_T.device) * max_seqlen - cu_seqlens_N1[:-1]
    rows_T = torch.arange(len(places_T), device=places_T.device)
    rows = rows_T + ahead_N.repeat_interleave(lengths_N), count, max_seqlen
    if ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation) is flash_attention_mask:
        lengths = {"cu_seq_lens_q": cu_seqlens_N1, "cu_seq_lens_k": cu_seqlens_N1}
        lengths |= {"max_length_q": max_seqlen, "max_length_k": max_seqlen}
        return Texts(places_T, rows, None, lengths)
    real = torch.arange(max_seqlen, device=places_T.device) < lengths_N[:, None]
    return Texts(places_T, rows, real, {"rows": rows})
