"""The table of tolerances: how far two computations of the same thing may differ, and why.

A bound belongs to a part check and a route.  Its value depends on the coarsest dtype of either
side.  In bfloat16 and float16 it is relative to the parent's own noise there, measured in the same
run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

# Roundings that add up from one score to the worst entry of a tiny model's worst gradient, relative
# to the largest entry (see `Difference`).  SDPA against eager, over four models, three paddings and
# two dtypes, needs 52 at most.  The smallest planted error of tests/parity has 900,000 in float32.
ROUNDINGS = 256

# A planted error of the same kind must be larger than the bound by this, or a pass says too little.
MARGIN = 10


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """How far a part may be from its parent: `roundings` in a wide dtype, `noises` in a narrow one.

    In a wide dtype the largest entry of a difference counts.  In a narrow dtype it is the root mean
    square of each tensor, in units of that tensor's noise in the parent (`measure_in_noise`).
    """

    roundings: float
    noises: float
    name: str
    computes_in: torch.dtype = torch.float64  # the widest dtype in which the part computes

    def at(self, *dtypes: torch.dtype) -> float:
        """The bound if the two sides compute in `dtypes`, as a relative difference or in noises."""
        coarsest = max((*dtypes, self.computes_in), key=lambda dtype: torch.finfo(dtype).eps)
        return self.noises if coarsest in NARROW else self.roundings * torch.finfo(coarsest).eps


NARROW = frozenset({torch.bfloat16, torch.float16})

# Both paths run the same operations in the same order: nothing may differ, in any dtype.
EQUAL = Bound(0, 0, "bit-equal")
# The same formula with sums in another order.  In a narrow dtype two such paths are each one noise
# from the truth and 1.4 from each other.  SDPA against eager, in four models and three paddings,
# needs 1.6 at most.
REORDERED = Bound(ROUNDINGS, 2, "reordered")
# Another formula for the same function, such as a mean over experts.
REFORMULATED = Bound(4 * ROUNDINGS, 3, "reformulated")
# Kernels that compute in float32, also in a float64 model.
IN_FLOAT32 = Bound(4 * ROUNDINGS, 3, "reformulated in float32", torch.float32)


def loosest(bounds: Iterable[Bound]) -> Bound:
    """The bound of several parts together."""
    return max(bounds)


BIT_EQUAL = 0.0


def rounding(*dtypes: torch.dtype) -> float:
    """The bound for two routes that sum in another order, for the coarsest of `dtypes`.

    Name the dtype of the softmax as well as the model's.  Llama's eager attention rounds its
    weights to float32 even in a float64 model, and is then no float64 reference.
    """
    return ROUNDINGS * max(torch.finfo(dtype).eps for dtype in dtypes)
