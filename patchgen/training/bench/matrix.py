"""The matrix: the cases, their entries and their targets.

The baseline comes first, then variants, then other entries in the order of their importance: the
last ones are skipped when the time of a case is used up.  Whole models are compiled where
transformers' mask depends on it; elsewhere layers are compiled, which takes seconds.

Sizes are those of published models, weights are random.  `docs/benchmarks.md` explains the targets.
"""

from __future__ import annotations

from dataclasses import replace

from patchgen.training.bench.case import Case
from patchgen.training.bench.cases.bert import B1, B2, B2_AMP
from patchgen.training.bench.cases.decoders import G1, L1, L2, L2_AMP, L3
from patchgen.training.bench.cases.experts import M1, M2
from patchgen.training.bench.cases.legacy import X1_BLOOM, X1_MEGATRON, X1_MPNET, X1_ROWS, X1_XGLM


def sort_entries(case: Case) -> Case:
    """Return the case with its baseline first and variants next.

    Compiling the other entries may use up the time of the case.
    """
    ranks = {"variant": 1, "stock": 2, "competitor": 2}
    ordered = sorted(
        case.entries, key=lambda one: 0 if one.name == case.baseline else ranks[one.role]
    )
    return replace(case, entries=tuple(ordered))


_CASES = (
    B1,
    B2,
    B2_AMP,
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
