"""Where the sequences of a batch are, as functions of FlashAttention are told."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return"

import torch
from torch import nn
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    flash_attention_mask,
    packed_sequence_mask_function,
)

__all__ = [
    "get_unpad_data",
    "labels_within_sequences",
    "packed_mask_function",
    "sequence_ids",
    "takes_cu_seqlens",
]


def takes_cu_seqlens(config):
    """Whether attention keeps sequences apart by `cu_seq_lens_q`, as FlashAttention does."""
    mask_function = ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation)
    return mask_function is flash_attention_mask


def sequence_ids(batch, attention_mask, position_ids, cu_seqlens=None):
    """The sequence of its row that each place of a batch belongs to."""
    if cu_seqlens is not None:
        places = torch.arange(batch.numel(), device=cu_seqlens.device)
        return torch.bucketize(places, cu_seqlens[1:], right=True).view(batch)
    steps = position_ids.expand(batch).diff()
    is_first = steps != 1
    if attention_mask is not None:  # behind padding, a sequence may go on
        is_real = attention_mask[:, -batch[1] :].bool()
        is_first &= is_real[:, 1:] & (is_real[:, :-1] | (steps < 1))
    return nn.functional.pad(is_first.cumsum(-1), (1, 0))


def get_unpad_data(batch, attention_mask, position_ids):
    """Where real tokens stand in a batch, and what FlashAttention is told of their sequences."""
    given = position_ids if attention_mask is None else attention_mask
    indices = torch.arange(batch.numel(), device=given.device)
    ids = indices // batch[1] * batch[1]
    if position_ids is not None:
        ids = ids + sequence_ids(batch, attention_mask, position_ids).flatten()
    if attention_mask is not None:
        indices = attention_mask[:, -batch[1] :].flatten().nonzero().squeeze(1)
    is_last = nn.functional.pad(ids[indices].diff() != 0, (0, 1), value=True)
    cu_seqlens = nn.functional.pad(is_last.nonzero().squeeze(1) + 1, (1, 0)).int()
    max_seqlen = int(cu_seqlens.diff().max())
    lengths = dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), cu_seqlens)
    return indices, lengths | dict.fromkeys(("max_length_q", "max_length_k"), max_seqlen)


def packed_mask_function(config, batch, attention_mask, position_ids, past_key_values, cu_seqlens):
    """What keeps packed sequences apart in a mask; None where attention or transformers does."""
    if past_key_values is not None:
        is_packed = attention_mask is None and position_ids is not None and batch[1] > 1
        if is_packed and not torch.compiler.is_compiling() and (position_ids.diff() != 1).any():
            raise ValueError("texts in one row need use_cache=False")
        return None
    beside_mask = position_ids is not None and getattr(attention_mask, "ndim", 0) == 2
    if takes_cu_seqlens(config) or (cu_seqlens is None and not beside_mask):
        return None
    ids = sequence_ids(batch, attention_mask, position_ids, cu_seqlens)
    return packed_sequence_mask_function(ids)


def labels_within_sequences(labels, position_ids):
    """`labels` without those of first tokens, which nothing of their sequence is before."""
    if labels is None or getattr(position_ids, "ndim", 0) != 2:
        return labels
    positions = position_ids[:, -labels.shape[-1] :].expand_as(labels)  # some may keep no logits
    return labels.masked_fill(nn.functional.pad(positions.diff() != 1, (1, 0)), -100)
