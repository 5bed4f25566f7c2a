"""How far apart two computations of the same thing may be, and why: the one table.

A bound belongs to a kind of claim and a reference path; what it comes to depends on the coarsest dtype on either side.
In bfloat16 and float16 it is relative to the noise that the parent itself has there, measured in the same run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

# Roundings that add up between one score and the worst entry of the worst gradient of a tiny model, relative to the
# largest entry (see `parity.Difference`).  Measured for SDPA against eager, over four models, three paddings, two
# dtypes: 52 at most.  The smallest planted error of tests/parity is of 900,000 roundings in float32.
ROUNDINGS = 256

# A planted error of the same kind must be larger than the bound by this, or a pass says too little.
MARGIN = 10


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """The distance that a claim allows: `roundings` of a wide dtype, `noises` of the parent in a narrow one.

    In a wide dtype the largest entry of a difference counts, in a narrow one the root mean square of each tensor's in
    units of that tensor's noise (`parity.measure_in_noise`).
    """

    roundings: float
    noises: float
    name: str

    def at(self, *dtypes: torch.dtype) -> float:
        """The bound where either side computes in `dtypes`: of a relative difference, or of noises."""
        coarsest = max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)
        return self.noises if coarsest in NARROW else self.roundings * torch.finfo(coarsest).eps


NARROW = frozenset({torch.bfloat16, torch.float16})

# Both paths run the same operations in the same order: nothing may differ, in no dtype.
EQUAL = Bound(0, 0, "bit-equal")
# The same formula, sums ordered otherwise.  In a narrow dtype two such paths are each one noise from the truth, 1.4
# from each other.  Measured for SDPA against eager in four models and three paddings: 1.6 at most.
REORDERED = Bound(ROUNDINGS, 2, "reordered")
# Another formula for the same function, such as a product of fused weights or a mean over experts.
REFORMULATED = Bound(4 * ROUNDINGS, 3, "reformulated")


def loosest(bounds: Iterable[Bound]) -> Bound:
    """The bound of what several parts do together."""
    return max(bounds)


BIT_EQUAL = 0.0


def rounding(*dtypes: torch.dtype) -> float:
    """The bound for two paths that order their sums differently, where the coarsest dtype on either is among `dtypes`.

    Name the dtype of the softmax as well as the model's: Llama's eager attention rounds its weights to float32 even in
    a float64 model, and is then no float64 reference.
    """
    return ROUNDINGS * max(torch.finfo(dtype).eps for dtype in dtypes)
