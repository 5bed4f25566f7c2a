"""A causal model in which texts of one row stay apart, under every attention."""

# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, no-any-return"
# mypy: disable-error-code="no-untyped-call"

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.flash.decoder import LabelsWithinTexts, NoCacheInTraining
from patchgen.parts.flash.lengths import bounds_of_texts

__all__ = ["LabelsWithinTexts", "PacksByPosition"]


@torch.compiler.disable  # the number of texts is not known before
def part_texts(config, batch, mask, position_ids, cache, kwargs):
    """The mask and the arguments of attention, changed where a row has several texts."""
    if mask is not None and getattr(mask, "ndim", 0) != 2:
        return mask, kwargs
    places_T, ends, longest = bounds_of_texts(
        batch, mask, position_ids, kwargs.get("cu_seq_lens_q")
    )
    if len(ends) - 1 <= len((places_T // batch[1]).unique()):
        return mask, kwargs
    if cache is not None or len(places_T) < batch.numel():
        raise ValueError("texts in one row need use_cache=False, and no padding between them")
    kernels = ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation) is flash_attention_mask
    of_q = {"cu_seq_lens_q": ends, "max_length_q": longest} if kernels else {}
    return None, kwargs | of_q | {name[:-1] + "k": value for name, value in of_q.items()}


class PacksByPosition(NoCacheInTraining):
    @edit("forward")
    def tell_attention_the_texts(
        self, attention_mask, inputs_embeds, position_ids, kwargs, seen: Hole, cache: Hole
    ):
        with old:
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
        with new:
            batch = inputs_embeds.shape[:2]
            if batch[1] > 1 and (position_ids is not None or "cu_seq_lens_q" in kwargs):
                attention_mask, kwargs = part_texts(
                    self.config, batch, attention_mask, position_ids, cache, kwargs
                )
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
