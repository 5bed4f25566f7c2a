"""Texts of a batch without padding, and attention that gives each of them a row of its own."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask, packed_sequence_mask_function
from transformers.modeling_flash_attention_utils import _index_first_axis, _pad_input

from patchgen.parts.flash.lengths import get_unpad_data, sequence_ids, takes_cu_seqlens

__all__ = ["attend_in_rows", "find_sequences"]


def attend_in_rows(interface, module, query, key, value, attention_mask, rows=None, **kwargs):
    """Attention in a batch where each text has a row; `rows` says where the tokens stand there."""
    if rows is None:
        return interface(module, query, key, value, attention_mask, **kwargs)
    states = (each[0].transpose(0, 1) for each in (query, key, value))
    in_rows = (_pad_input(each, *rows).transpose(1, 2) for each in states)
    attn_output, attn_weights = interface(module, *in_rows, attention_mask, **kwargs)
    return _index_first_axis(attn_output, rows[0])[None], attn_weights


def rows_of_a_mask(batch, attention_mask):
    """Where tokens stand in a batch whose rows attention keeps; None where none is padding."""
    # First places are kept, whatever stands there: poolers read them.
    is_kept = nn.functional.pad(attention_mask[:, 1:].bool(), (1, 0), value=True)
    indices = is_kept.flatten().nonzero().squeeze(1)
    if not torch.compiler.is_compiling() and len(indices) == batch.numel():
        return None, None, attention_mask, {}
    return indices, None, attention_mask, {"rows": (indices, *batch)}


def rows_of_sequences(config, tokens, cu_seqlens, max_seqlen):
    """Where tokens stand in a batch with a row for each sequence, and the mask of its padding."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    ids = torch.bucketize(places, cu_seqlens[1:], right=True)
    is_real = torch.arange(max_seqlen, device=tokens.device) < cu_seqlens.diff()[:, None]
    attention_mask = create_bidirectional_mask(
        config=config,
        inputs_embeds=tokens.new_empty(*is_real.shape, 0),
        attention_mask=is_real,
        allow_is_bidirectional_skip=False,  # a look at the mask would wait for the device
    )
    return (places - cu_seqlens[ids] + ids * max_seqlen, *is_real.shape), attention_mask


def mask_of_sequences(config, states, attention_mask, position_ids):
    """The mask that keeps sequences of one row apart, and where they begin."""
    ids = sequence_ids(states.shape[:2], attention_mask, position_ids)
    attention_mask = create_bidirectional_mask(
        config=config,
        inputs_embeds=states,
        attention_mask=attention_mask,
        and_mask_function=packed_sequence_mask_function(ids),
    )
    return attention_mask, nn.functional.pad(ids.diff() != 0, (1, 0), value=True)


def find_sequences(config, states, attention_mask, position_ids, kwargs):
    """Where tokens stand in a batch, where packed sequences begin, and what attention is told."""
    batch, cu_seqlens = states.shape[:2], kwargs.get("cu_seq_lens_q")
    in_rows, is_compiling = not takes_cu_seqlens(config), torch.compiler.is_compiling()
    if cu_seqlens is not None:
        if position_ids is None:
            raise ValueError("cu_seq_lens_q is taken together with position_ids")
        indices = torch.arange(batch.numel(), device=states.device)
    elif position_ids is None and in_rows:
        return rows_of_a_mask(batch, attention_mask)
    elif is_compiling and in_rows:  # a graph cannot branch on the lengths
        attention_mask, first = mask_of_sequences(config, states, attention_mask, position_ids)
        return None, first, attention_mask, {}
    else:
        indices, kwargs = get_unpad_data(batch, attention_mask, position_ids)
        cu_seqlens = kwargs["cu_seq_lens_q"]
        if not is_compiling and len(indices) == batch.numel() and len(cu_seqlens) == batch[0] + 1:
            return None, None, attention_mask, {}  # each row is a sequence
    first = None if position_ids is None else indices[cu_seqlens[:-1]]
    if not in_rows:
        return indices, first, None, kwargs
    max_seqlen = kwargs.get("max_length_q") or int(cu_seqlens.diff().max())
    tokens = _index_first_axis(states, indices)[None]
    rows, attention_mask = rows_of_sequences(config, tokens, cu_seqlens, max_seqlen)
    return indices, first, attention_mask, {"rows": rows}
