"""The liger part: kernels of Liger in place of norms, rotations, gated products and the loss.

Each is declared where the parent's statements compute what the kernel does, and left out, with the
place, where they do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patchgen import disk
from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.ffn import network_of, returned
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import mixin
from patchgen.author.declare.loss import loss
from patchgen.author.declare.norm import rms_norms, unknown
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

SAYS = (
    "Liger's kernels are imported by the file itself, which needs liger-kernel and a GPU. "
    "{loss}See `patchgen.parts.liger` for what they refuse and where they round otherwise."
)
OF_LOSS = "In training with labels there are no `outputs.logits`. "
# The kernel for what a mixin of the part `norm` computes, or one of the part `loss`.
NORMS = {f"Fused{n}RMSNorm": f"Liger{n}RMSNorm" for n in ("", "Scaled", "ScaledEps", "Offset")}
LOSSES = {
    f"{kind}ChunkedLoss": f"Liger{kind.removeprefix('Biased')}Loss"
    for kind in ("", "Biased", "Scaled", "Divided", "Softcapped", "AlwaysCapped", "ScaledCapped")
}
ROTARY = "LigerRotary"
GATES = {
    **dict.fromkeys(("silu", "swish"), ("LigerSwiGLU", "LigerChunkedSwiGLU")),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new"), ("LigerGeGLU",)),
}

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
def liger(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_loss = loss(module)
    norms, rotations = rms_norms(module), rotations_of(module)
    kernels = [(owner.name, NORMS[mixin]) for owner, mixin in norms.items() if mixin in NORMS]
    kernels += [(owner.name, ROTARY) for owner, why in rotations if not why]
    kernels += gates_of(module)
    losses = {h.name: LOSSES[m] for h in of_loss.declared if (m := h.mixins[0]) in LOSSES}
    kernels += losses.items()
    if not kernels:
        raise Unfit(None, "nothing that a kernel of Liger computes")
    missing = [
        Missing(module.at(o.node), f"{o.name} rotates as before: {w}") for o, w in rotations if w
    ]
    missing = [*unknown(module, NORMS), *missing]
    missing += [Missing(miss.at, miss.what) for miss in of_loss.missing if miss.at.line]
    declared = tuple(Declared(name, mixins=(mixin,)) for name, mixin in kernels)
    says = SAYS.format(loss=OF_LOSS if losses else "")
    return Contribution("liger", says, declared, tuple(missing))


def rotations_of(module: Module) -> list[tuple[Class, str]]:
    """The classes that rotate queries and keys once, and why each goes on as before, or ""."""
    rotations = []
    for owner in module.classes.values() if ROTATE in module.functions else ():
        if [called(call) for call in walk(owner.forward(), ast.Call)].count(ROTATE) == 1:
            fits = mixin("liger", ROTARY).fits(owner.own)
            why = _why_no_rotation(module) or ("" if fits else "its statement is another one")
            rotations.append((owner, why))
    return rotations


def _why_no_rotation(module: Module) -> str:
    """Why the kernel does not compute what the module rotates by; "" if it does."""
    rotate, half = module.functions[ROTATE], module.functions.get("rotate_half")
    if half is None:
        return "there is no rotation of halves"
    results = [ast.unparse(returned(function.body) or ast.Pass()) for function in (rotate, half)]
    if results[0] not in ROTATIONS or results[1] != HALF:
        return "it rotates otherwise"
    cosines = [
        method
        for _, method in module.methods
        if any(last(called(call)) == "cos" for call in walk(method.body, ast.Call))
    ]
    if not cosines or not all(TWICE in ast.unparse(method) for method in cosines):
        return "the second half of its cosines may differ from the first"
    return ""


def gates_of(module: Module) -> Iterator[tuple[str, str]]:
    """The classes with a gated product that a kernel computes, and its mixin."""
    for owner in module.classes.values():
        if network_of(owner)[0] not in ("gated", "halves"):
            continue  # elsewhere the two factors may have different shapes
        for name in GATES.get(_activation(module, owner), ()):
            if mixin("liger", name).fits(owner.own):
                yield owner.name, name


def _activation(module: Module, owner: Class) -> str:
    """The activation that the class takes where its configuration sets none."""
    init = owner.own.get("__init__")
    lookups = [] if init is None else list(walk(init.body, ast.Subscript))
    options = [dotted(node.slice) for node in lookups if dotted(node.value) == "ACT2FN"]
    if init is None or len(options) != 1 or module.folder is None:
        return ""
    by_class: dict[str, object] = {}
    for path in module.folder.glob("configuration_*.py"):
        for config in walk(ast.parse(disk.text_of(path)), ast.ClassDef):
            for node in walk(config, ast.AnnAssign):
                if f"config.{dotted(node.target)}" == options[0]:
                    by_class[config.name] = constant(node.value)
    annotations = [dotted(arg.annotation) for arg in init.args.args if arg.arg == "config"]
    of_class = [by_class[name] for name in annotations if name in by_class]
    values = set(of_class or by_class.values())
    return str(values.pop()) if len(values) == 1 else ""


def check() -> PartCheck:
    from patchgen.verifying.parts.layers import LIGER

    return LIGER


PART = Part(
    "liger",
    check,
    "Liger's kernels for norms, rotations, gated products and the loss",
    liger,
)
