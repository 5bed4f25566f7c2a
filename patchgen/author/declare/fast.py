"""The part `fast`: the sum of what fits a model.

Variants that have `patchgen.parts.fast` by hand use Liger's kernels too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.author.declare.part import Part

if TYPE_CHECKING:
    from patchgen.verify.parts.part_check import PartCheck


def check() -> PartCheck:
    from patchgen.verify.parts.layers import FAST

    return FAST


SUM = ("sdpa", "loss", "flash", "norm")
PART = Part("fast", check, f"{', '.join(SUM[:-1])} and {SUM[-1]}: those that fit", sum_of=SUM)
