"""The kernels part: the norms of the part `norm`, rotations and gates, by Liger where it is.

Each is declared where the parent's statements compute what the kernel does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen import disk
from patchgen.author.anatomy.code import called, constant, last, walk
from patchgen.author.anatomy.ffn import network_of, returned
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import mixin
from patchgen.author.declare.norm import norm
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, refusing
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "RMSNorm, rotation and gated product are a kernel each on CUDA: Liger's, where liger-kernel is "
    "installed, and else torch's norm. See `patchgen.parts.kernels`."
)
# The norms of the part `norm` that Liger has a kernel for.
NORMS = {f"Fused{n}RMSNorm": f"Fast{n}RMSNorm" for n in ("", "Scaled", "ScaledEps", "Offset")}
GATES = {
    **dict.fromkeys(("silu", "swish"), ("FastSwiGLU", "FastChunkedSwiGLU")),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new"), ("FastGeGLU",)),
}
ROTARY = "FastRotary"
ROTATE = "apply_rotary_pos_emb"
HALF = "torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), dim=-1)"
_SIZE = "cos.unsqueeze(unsqueeze_dim).shape[-1]"
_TURNED = "{0} * cos.unsqueeze(unsqueeze_dim) + rotate_half({0}) * sin.unsqueeze(unsqueeze_dim)"
_PART = _TURNED.format(f"{{0}}[..., :{_SIZE}]")
_WIDE = _TURNED.format("{0}.float()")
# Each rotation of queries and keys that the kernel computes: of the halves, over all features or
# the first of them.
ROTATIONS = [
    f"({rotation.format('q')}, {rotation.format('k')})"
    for rotation in (
        _TURNED,
        f"torch.cat([{_PART}, {{0}}[..., {_SIZE}:]], dim=-1)",
        f"({_TURNED}).to({{0}}.dtype)",
        f"({_WIDE}).to(q.dtype)",
    )
]
# What makes the second half of cosines the same as the first.
TWICE = "torch.cat((freqs, freqs), dim=-1)"


@refusing
def kernels(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_norm = norm(module)
    norms = [_by_liger(declared) for declared in of_norm.declared]
    has_norm = any(declared not in of_norm.declared for declared in norms)
    gates = [*_find_gates(module)]
    rotations = [*_find_rotations(module)]
    if not (has_norm or gates or rotations):
        raise Unfit(None, "no norm, rotation or gate here is one that a kernel of Liger computes")
    missing = []
    for stays in of_norm.missing:
        if stays.at.line:  # the other norms take those of the part `norm`
            missing.append(replace(stays, fatal=False))
    return Contribution("kernels", SAYS, (*norms, *gates, *rotations), tuple(missing))


def _by_liger(declared: Declared) -> Declared:
    mixins = tuple(NORMS.get(name, name) for name in declared.mixins)
    return replace(declared, mixins=mixins)


def _find_rotations(module: Module) -> Iterator[Declared]:
    """The classes that rotate queries and keys once, as the kernel does."""
    if not _rotates_halves(module):
        return
    for owner in module.classes.values():
        names = [called(call) for call in walk(owner.forward(), ast.Call)]
        if names.count(ROTATE) == 1 and mixin("kernels", ROTARY).fits(owner.own):
            yield Declared(owner.name, mixins=(ROTARY,))


def _rotates_halves(module: Module) -> bool:
    """Whether the module rotates halves, and the second half of its cosines is the first."""
    rotate, half = map(module.functions.get, (ROTATE, "rotate_half"))
    if rotate is None or half is None:
        return False
    results = [ast.unparse(returned(function.body) or ast.Pass()) for function in (rotate, half)]
    if results[0] not in ROTATIONS or results[1] != HALF:
        return False
    cosines = [
        method
        for _, method in module.methods
        if any(last(called(call)) == "cos" for call in walk(method.body, ast.Call))
    ]
    return bool(cosines) and all(TWICE in ast.unparse(method) for method in cosines)


def _find_gates(module: Module) -> Iterator[Declared]:
    """The classes with a gated product that a kernel computes."""
    for owner in module.classes.values():
        if network_of(owner)[0] not in ("gated", "halves"):
            continue  # elsewhere the two factors may have different shapes
        for name in GATES.get(_activation(module, owner), ()):
            if mixin("kernels", name).fits(owner.own):
                yield Declared(owner.name, mixins=(name,))


def _activation(module: Module, owner: Class) -> str:
    """The activation that the class takes where its configuration sets none."""
    init = owner.own.get("__init__")
    if init is None or module.folder is None:
        return ""
    lookups = walk(init.body, ast.Subscript)
    options = [dotted(node.slice) for node in lookups if dotted(node.value) == "ACT2FN"]
    if len(options) != 1:
        return ""
    by_class: dict[str, object] = {}
    for path in module.folder.glob("configuration_*.py"):
        for config in walk(ast.parse(disk.text_of(path)), ast.ClassDef):
            for field in walk(config, ast.AnnAssign):
                if f"config.{dotted(field.target)}" == options[0]:
                    by_class[config.name] = constant(field.value)
    values = set(by_class.values())
    for arg in init.args.args:
        annotation = dotted(arg.annotation)
        if arg.arg == "config" and annotation in by_class:
            values = {by_class[annotation]}
    return str(values.pop()) if len(values) == 1 else ""


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
