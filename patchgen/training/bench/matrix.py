"""The matrix: what is trained by whom, and what is hoped for.

The anchor stands first, then variants, then the others, of which those that say most stand first: where the time of a
case is up, the rest have none.  Whole models are compiled where the mask that transformers makes then is the point;
layers elsewhere, which takes seconds.

Sizes are those of published models, weights are drawn.  Targets are what `docs/benchmarks.md` gives reasons for.
"""

from __future__ import annotations

from dataclasses import replace

from patchgen.training.bench.case import Case
from patchgen.training.bench.cases.bert import B1, B2, B2_AMP, B3
from patchgen.training.bench.cases.decoders import G1, L1, L2, L2_AMP, L3
from patchgen.training.bench.cases.experts import M1, M2
from patchgen.training.bench.cases.legacy import X1_BLOOM, X1_MEGATRON, X1_MPNET, X1_ROWS, X1_XGLM


def sort_entries(case: Case) -> Case:
    """The case with its anchor first and variants next: compiling what they stand beside may take all the time."""
    ranks = {"variant": 1, "baseline": 2, "rival": 2}
    ordered = sorted(
        case.entries, key=lambda one: 0 if one.name == case.baseline else ranks[one.role]
    )
    return replace(case, entries=tuple(ordered))


_CASES = (
    B1,
    B2,
    B2_AMP,
    B3,
    L1,
    L2,
    L2_AMP,
    L3,
    G1,
    M1,
    M2,
    X1_MPNET,
    X1_ROWS,
    X1_BLOOM,
    X1_MEGATRON,
    X1_XGLM,
)
CASES = tuple(sort_entries(case) for case in _CASES)
