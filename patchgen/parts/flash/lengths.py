"""Where the texts of a batch are, as functions of FlashAttention are told."""

# mypy: disable-error-code="no-untyped-def"

import torch
from torch import nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
from transformers.modeling_flash_attention_utils import _get_unpad_data

__all__ = ["find_texts"]


@torch.compiler.disable  # the number of tokens is not known before
def find_texts(model, mask, position_ids, kwargs):
    """The tokens of a batch and the lengths of its texts; None where attention takes no lengths."""
    interface = ALL_MASK_ATTENTION_FUNCTIONS.get(model.config._attn_implementation)
    recorded = kwargs.get("output_hidden_states", model.config.output_hidden_states)
    if interface is not flash_attention_mask or model.keeps_padding or recorded:
        return None
    if mask is not None:  # each row is a text
        places_T, cu_seqlens, max_seqlen = _get_unpad_data(mask.bool())
    else:  # a text ends with each row, and where positions restart
        ends_T = nn.functional.pad(position_ids.diff() != 1, (0, 1), value=True).flatten()
        cu_seqlens = nn.functional.pad(ends_T.nonzero()[:, 0] + 1, (1, 0)).int()
        places_T = torch.arange(len(ends_T), device=ends_T.device)
        max_seqlen = int(cu_seqlens.diff().max())
    lengths = {"cu_seq_lens_q": cu_seqlens, "cu_seq_lens_k": cu_seqlens}
    return places_T, lengths | {"max_length_q": max_seqlen, "max_length_k": max_seqlen}
