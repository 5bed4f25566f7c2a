"""Attention as one call of torch's `scaled_dot_product_attention`, where transformers' attention interface is called.

`sdpa_attention` takes the place of the interface and says which masks it takes.  Other implementations come with other
masks (two-dimensional for flash attention), which a call of SDPA would misread without a word: `SdpaOrEager` refuses
them when a model is built, `sdpa_attention` when it runs.

Under torch.compile transformers gives every causal model without a cache a mask of four dimensions, which costs the
fast kernels and native grouped heads.  `CausalWithoutMask` leaves it out where `is_causal` says the same.

Axes: B batch, H query heads, G key and value heads, L queries, S keys, D head size.
"""

from patchgen.parts.sdpa.asked import (
    SdpaAroundModels,
    SdpaOrEager,
    configs_inside,
    knowing,
    refuse_other_attention,
    wants_weights,
)
from patchgen.parts.sdpa.call import sdpa, seen_before
from patchgen.parts.sdpa.interface import NOT_IN_SDPA, sdpa_attention, sink_attention, with_sinks
from patchgen.parts.sdpa.masks import additive_mask, for_eager
from patchgen.parts.sdpa.order import (
    CausalWithoutMask,
    SlidingWithoutMask,
    causal_mask_if_needed,
    order_says_all,
    sliding_window_mask_if_needed,
)
from patchgen.parts.sdpa.terms import sum_of_terms, windows, zero_unless_seen
from patchgen.parts.sdpa.written import attend, projected_attention

__all__ = [
    "CausalWithoutMask",
    "NOT_IN_SDPA",
    "SdpaAroundModels",
    "SdpaOrEager",
    "SlidingWithoutMask",
    "additive_mask",
    "attend",
    "causal_mask_if_needed",
    "configs_inside",
    "for_eager",
    "knowing",
    "order_says_all",
    "projected_attention",
    "refuse_other_attention",
    "sdpa",
    "sdpa_attention",
    "seen_before",
    "sink_attention",
    "sliding_window_mask_if_needed",
    "sum_of_terms",
    "wants_weights",
    "windows",
    "with_sinks",
    "zero_unless_seen",
]
