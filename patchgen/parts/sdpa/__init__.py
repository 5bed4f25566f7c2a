"""Attention by one call of SDPA, where scores are written out.

`patchgen new --with sdpa` writes calls of it.  It is for what the interface does not take too:
masks of a model's own, windows of images, sinks, weights that are read elsewhere, scores that are
made in another layout.

Other implementations come with other masks (two-dimensional for flash attention), which a call of
SDPA would misread without a word: `SdpaOrEager` refuses them when a model is built,
`sdpa_attention` when it runs.

Axes: B batch, H query heads, G key and value heads, L queries, S keys, D head size.
"""

from patchgen.parts.sdpa.asked import (
    SdpaAroundModels,
    SdpaOrEager,
    TellsConfig,
    configs_inside,
    refuse_other_attention,
    wants_weights,
)
from patchgen.parts.sdpa.call import sdpa, seen_before
from patchgen.parts.sdpa.interface import NOT_IN_SDPA, sdpa_attention, sink_attention, with_sinks
from patchgen.parts.sdpa.masks import additive_mask, for_eager
from patchgen.parts.sdpa.terms import blank_scores, sum_of_terms, windows
from patchgen.parts.sdpa.written import attend

__all__ = [
    "NOT_IN_SDPA",
    "SdpaAroundModels",
    "SdpaOrEager",
    "TellsConfig",
    "additive_mask",
    "blank_scores",
    "attend",
    "configs_inside",
    "for_eager",
    "refuse_other_attention",
    "sdpa",
    "sdpa_attention",
    "seen_before",
    "sink_attention",
    "sum_of_terms",
    "wants_weights",
    "windows",
    "with_sinks",
]
