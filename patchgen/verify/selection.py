"""How much is to be run of each variant.  Imports nothing: whoever starts a child needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

DTYPES = ("float64", "float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cases.

    `full` adds every head, inductor and more ways to generate.  `short` is for many models: checkpoints, effect,
    everything that a step of training gives in float64 and float32 with full rows and rows padded at either side, and
    the planted errors in float32; of the first head alone.  `lines` asks which of the changed lines ran, and `mutants`
    how many errors are planted in them (None: all that can be made).
    """

    full: bool = False
    dtypes: tuple[str, ...] = DTYPES
    short: bool = False
    lines: bool = False
    mutants: int | None = 0
