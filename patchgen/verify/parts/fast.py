"""fast: the best kernels that are there for a decoder; on a CPU these are its norms."""

from __future__ import annotations

from dataclasses import replace

from transformers import PreTrainedModel

from patchgen.verify.differences import REORDERED
from patchgen.verify.parts import norm
from patchgen.verify.parts.part_check import Route


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The attention of the variant is for its other parts to say."""
    given = {"rms_norm_eps": norm.EPSILON}
    eager = {**given, "attn_implementation": "eager"}
    return Route("its norms", REORDERED, given, given), Route(
        "its norms under eager", REORDERED, eager, given
    )


PART_CHECK = replace(
    norm.PART_CHECK,
    part="fast",
    says="norms are one call of torch's, and on CUDA with Liger's kernels rotation and gate too",
    routes=routes,
)
