"""How much is run of each variant.

This module imports nothing, so a process that starts a child needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

DTYPES = ("float64", "float32", "bfloat16")
# Of the processor, for one variant, unless everything is asked for: a minute with what is begun
# by then, and with the process that shows it.
SECONDS = 50.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cases run.

    `full` adds every head, inductor and more ways to generate.  `short` is for many models: for the
    first head only, it runs checkpoints, effects, one training step in float64 and float32 with
    full rows and with rows padded at either side, and the planted errors in float32.  `lines`
    records which changed lines run.  `mutants` is the number of errors planted in them; None plants
    all that can be made.  After `seconds` of the processor's time nothing more is begun.  `seed`
    draws weights, inputs and dropout.
    """

    full: bool = False
    dtypes: tuple[str, ...] = DTYPES
    short: bool = False
    lines: bool = False
    mutants: int | None = 0
    seconds: float | None = None
    seed: int = 0
