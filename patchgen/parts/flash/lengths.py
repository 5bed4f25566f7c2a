"""Where the texts of a batch are, as functions of FlashAttention are told."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return"

import torch
from torch import nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
from transformers.modeling_flash_attention_utils import _get_unpad_data

__all__ = ["bounds_of_texts", "find_texts", "labels_within_texts"]


def bounds_of_texts(batch, mask, position_ids, lengths=None):
    """Places of real tokens, where texts begin among them, and how long one is at most."""
    if position_ids is None and lengths is None:
        return _get_unpad_data(mask.bool())  # each row is a text
    if position_ids is None:
        raise ValueError("cu_seq_lens_q is taken together with position_ids")
    places_T = torch.arange(batch.numel(), device=position_ids.device)
    places_T = places_T if mask is None else places_T[mask[:, -batch[1] :].bool().flatten()]
    steps, gaps = position_ids.expand(batch).flatten()[places_T].diff(), places_T.diff()
    follows = (places_T // batch[1]).diff() == 0
    follows &= (steps == 1) | (steps == gaps)  # positions count tokens, or places
    ends_T = nn.functional.pad(~follows, (0, 1), value=True)
    cu_seqlens = nn.functional.pad(ends_T.nonzero()[:, 0] + 1, (1, 0)).int()
    if lengths is not None and not torch.equal(cu_seqlens, lengths.to(cu_seqlens)):
        raise ValueError("cu_seq_lens_q are not the texts that position_ids tell apart")
    return places_T, cu_seqlens, int(cu_seqlens.diff().max())


@torch.compiler.disable  # the number of tokens is not known before
def find_texts(model, mask, position_ids, batch, cache, kwargs):
    """The mask that is left, and the tokens with the lengths of texts if attention takes these."""
    interface = ALL_MASK_ATTENTION_FUNCTIONS.get(model.config._attn_implementation)
    recorded = kwargs.get("output_hidden_states", model.config.output_hidden_states)
    whole = cache is not None or model.keeps_padding or recorded
    takes, lengths = interface is flash_attention_mask and not whole, kwargs.get("cu_seq_lens_q")
    told = takes or position_ids is not None or lengths is not None
    if not told or getattr(mask, "ndim", 0 if mask is not None else 2) != 2:
        return mask, None
    places_T, cu_seqlens, longest = bounds_of_texts(batch, mask, position_ids, lengths)
    if takes:
        of_q = {"cu_seq_lens_q": cu_seqlens, "max_length_q": longest}
        return None, (places_T, of_q | {name[:-1] + "k": each for name, each in of_q.items()})
    if len(cu_seqlens) - 1 <= len((places_T // batch[1]).unique()):
        return mask, None  # no row has two texts
    if cache is not None or len(places_T) < batch.numel():
        raise ValueError("texts in one row need use_cache=False, and no padding between them")
    return None, None  # transformers' masks keep them apart by position_ids


def labels_within_texts(labels, position_ids):
    """`labels` without those of first tokens, which nothing of their text is before."""
    if labels is None or getattr(position_ids, "ndim", 0) != 2:
        return labels
    places = position_ids[:, -labels.shape[-1] :].expand_as(labels)  # some may keep no logits
    return labels.masked_fill(nn.functional.pad(places.diff() != 1, (1, 0)), -100)
