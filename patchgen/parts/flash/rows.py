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


def rows_of_sequences(config, states, cu_seqlens, max_seqlen):
    """Where tokens stand in a batch with a row for each text, and the mask of its padding."""
    places = torch.arange(states.shape[:2].numel(), device=states.device)
    text_ids = torch.bucketize(places, cu_seqlens[1:], right=True)
    indices = places - cu_seqlens[text_ids] + text_ids * max_seqlen
    is_real = torch.arange(max_seqlen, device=states.device) < cu_seqlens.diff()[:, None]
    attention_mask = create_bidirectional_mask(
        config=config,
        inputs_embeds=states.new_empty(*is_real.shape, 0),
        attention_mask=is_real,
        allow_is_bidirectional_skip=False,  # a look at the mask would wait for the device
    )
    return (indices, *is_real.shape), attention_mask


def mask_of_sequences(config, states, attention_mask, position_ids):
    """The mask that keeps texts of one row apart, and where they begin."""
    ids = sequence_ids(states.shape[:2], attention_mask, position_ids)
    attention_mask = create_bidirectional_mask(
        config=config,
        inputs_embeds=states,
        attention_mask=attention_mask,
        and_mask_function=packed_sequence_mask_function(ids),
    )
    return attention_mask, nn.functional.pad(ids.diff() != 0, (1, 0), value=True)


def find_sequences(config, states, attention_mask, position_ids, kwargs):
    """Where tokens stand in a batch, and packed texts begin, and what attention is told of them."""
    batch, cu_seqlens = states.shape[:2], kwargs.get("cu_seq_lens_q")
    is_known = not torch.compiler.is_compiling()  # how many tokens and texts there are
    if cu_seqlens is not None:
        if position_ids is None:
            raise ValueError("cu_seq_lens_q is taken together with position_ids")
        indices, is_known = torch.arange(batch.numel(), device=states.device), False
    elif position_ids is not None and not is_known and not takes_cu_seqlens(config):
        attention_mask, first = mask_of_sequences(config, states, attention_mask, position_ids)
        return None, first, attention_mask, {}
    elif position_ids is not None or takes_cu_seqlens(config):
        indices, kwargs = get_unpad_data(batch, attention_mask, position_ids)
        cu_seqlens = kwargs["cu_seq_lens_q"]
    else:
        # First places are kept, whatever stands there: poolers read them.
        is_kept = nn.functional.pad(attention_mask[:, 1:].bool(), (1, 0), value=True)
        indices = is_kept.flatten().nonzero().squeeze(1)
    texts = batch[0] if cu_seqlens is None else len(cu_seqlens) - 1
    if is_known and len(indices) == batch.numel() and texts == batch[0]:
        return None, None, attention_mask, {}  # each row is a text
    if cu_seqlens is None:
        return indices, None, attention_mask, {"rows": (indices, *batch)}
    first = None if position_ids is None else indices[cu_seqlens[:-1]]
    if takes_cu_seqlens(config):
        return indices, first, None, kwargs
    tokens = _index_first_axis(states, indices)[None]
    rows, attention_mask = rows_of_sequences(config, tokens, cu_seqlens, kwargs["max_length_q"])
    return indices, first, attention_mask, {"rows": rows}
