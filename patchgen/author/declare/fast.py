"""The part `fast`: the sum of what fits a model."""

from __future__ import annotations

from patchgen.author.declare.part import Part

SUM = ("sdpa", "loss", "flash", "kernels", "norm")
PART = Part("fast", help=f"{', '.join(SUM[:-1])} and {SUM[-1]}: those that fit", sum_of=SUM)
