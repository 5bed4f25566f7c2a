"""How far apart two computations of the same thing may be, and why.

A bound belongs to a pair: the path that is checked and the path that it is checked against.
"""

from __future__ import annotations

import torch

# Both paths run the same operations in the same order: nothing may differ.
BIT_EQUAL = 0.0

# Roundings that add up between one score and the worst entry of the worst gradient of a tiny model, relative to the
# largest entry (see `parity.Difference`).  Measured for SDPA against eager, over four models, three paddings, two
# dtypes: 52 at most.  The smallest planted error of tests/parity is of 900,000 roundings in float32.
ROUNDINGS = 256


def rounding(*dtypes: torch.dtype) -> float:
    """The bound for two paths that order their sums differently, where the coarsest dtype on either is among `dtypes`.

    Name the dtype of the softmax as well as the model's: Llama's eager attention rounds its weights to float32 even in
    a float64 model, and is then no float64 reference.
    """
    return ROUNDINGS * max(torch.finfo(dtype).eps for dtype in dtypes)
