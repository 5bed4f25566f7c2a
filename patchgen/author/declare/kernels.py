"""The kernels part: the norms of the part `norm`, rotations and gates, by Liger where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.author.anatomy.module import Module, Unfit
from patchgen.author.declare.edits import mixin
from patchgen.author.declare.liger import gates_of, rotations_of
from patchgen.author.declare.norm import norm
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "RMSNorm, rotation and gated product are a kernel each on CUDA: Liger's, where liger-kernel is "
    "installed, and else torch's norm. See `patchgen.parts.kernels`."
)
# The norms of the part `norm` that Liger has a kernel for.
NORMS = {f"Fused{n}RMSNorm": f"Fast{n}RMSNorm" for n in ("", "Scaled", "ScaledEps", "Offset")}
GATES = {"LigerSwiGLU": "FastSwiGLU", "LigerGeGLU": "FastGeGLU"}
ROTARY = "FastRotary"


@refusing
def kernels(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_norm = norm(module)
    norms = [_by_liger(declared) for declared in of_norm.declared]
    by_liger = [declared for declared in norms if declared not in of_norm.declared]
    gates = [
        Declared(name, mixins=(GATES[kernel],))
        for name, kernel in gates_of(module)
        if kernel in GATES
    ]
    fits = mixin("kernels", ROTARY).fits
    rotations = [
        Declared(owner.name, mixins=(ROTARY,))
        for owner, why_not in rotations_of(module)
        if not why_not and fits(owner.own)
    ]
    if not by_liger and not gates and not rotations:
        raise Unfit(None, "no norm, rotation or gate here is one that a kernel of Liger computes")
    # The other norms take those of the part `norm`.
    missing = tuple(replace(each, fatal=False) for each in of_norm.missing if each.at.line)
    return Contribution("kernels", SAYS, (*norms, *gates, *rotations), missing)


def _by_liger(declared: Declared) -> Declared:
    mixins = tuple(NORMS.get(name, name) for name in declared.mixins)
    return replace(declared, mixins=mixins)


def check() -> PartCheck:
    from patchgen.verifying.parts.layers import KERNELS

    return KERNELS


PART = Part(
    "kernels",
    check,
    "norm, rotation and gate in one kernel each: Liger's where it is installed",
    kernels,
    includes=("norm",),
)
