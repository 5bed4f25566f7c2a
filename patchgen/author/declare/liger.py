"""The liger part: kernels of Liger in place of norms, rotations, gated products and the loss.

Each is declared where the parent's statements compute what the kernel does, and left out, with the
place, where they do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.ffn import network_of, returned
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.fitting import mixin
from patchgen.author.declare.loss import loss
from patchgen.author.declare.norm import FORMS, rms_norms, unknown
from patchgen.author.declare.variant import Contribution, Declared, Missing

SAYS = (
    "Liger's kernels are imported by the file itself, which needs liger-kernel and a GPU. "
    "{loss}See `patchgen.parts.liger` for what they refuse and where they round otherwise."
)
OF_LOSS = "In training with labels there are no `outputs.logits`. "
# The kernel for what a mixin of the part `norm` computes, or one of the part `loss`.
NORMS = {
    "FusedRMSNorm": "LigerRMSNorm",
    "FusedScaledRMSNorm": "LigerScaledRMSNorm",
    "FusedScaledEpsRMSNorm": "LigerScaledEpsRMSNorm",
    "FusedOffsetRMSNorm": "LigerOffsetRMSNorm",
}
LOSSES = {
    "ChunkedLoss": "LigerLoss",
    "BiasedChunkedLoss": "LigerLoss",
    "ScaledChunkedLoss": "LigerScaledLoss",
    "DividedChunkedLoss": "LigerDividedLoss",
    "SoftcappedChunkedLoss": "LigerSoftcappedLoss",
    "AlwaysCappedChunkedLoss": "LigerAlwaysCappedLoss",
    "ScaledCappedChunkedLoss": "LigerScaledCappedLoss",
}
ROTARY = "LigerRotary"
SILU = ("LigerSwiGLU", "LigerChunkedSwiGLU")
GATES = {
    "silu": SILU,
    "swish": SILU,
    "gelu_pytorch_tanh": ("LigerGeGLU",),
    "gelu_new": ("LigerGeGLU",),
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


def liger(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_loss = loss(module)
    declared = [
        *(
            Declared(owner.name, mixins=(NORMS[FORMS[form]],))
            for owner, form in _norms(module, True)
        ),
        *_rotations(module),
        *_gates(module),
        *(
            Declared(one.name, mixins=(LOSSES[one.mixins[0]],))
            for one in of_loss.declared
            if one.mixins[0] in LOSSES
        ),
    ]
    missing = [
        *(unknown(module, owner) for owner, _ in _norms(module, False)),
        *_other_rotations(module),
        *(one for one in of_loss.missing if one.at.line),
    ]
    if not declared:
        nothing = Missing(module.at(module.tree), "nothing that a kernel of Liger computes", True)
        return Contribution("liger", missing=(nothing,))
    takes_loss = any(name in LOSSES.values() for one in declared for name in one.mixins)
    return Contribution(
        "liger",
        SAYS.format(loss=OF_LOSS if takes_loss else ""),
        tuple(declared),
        tuple(Missing(one.at, one.what) for one in missing),
    )


def _norms(module: Module, has_kernel: bool) -> Iterator[tuple[Class, str]]:
    for owner, form in rms_norms(module).items():
        if (FORMS.get(form) in NORMS) is has_kernel:
            yield owner, form


def _rotations(module: Module) -> Iterator[Declared]:
    for owner in _rotating(module):
        if not _why_no_rotation(module) and mixin("liger", ROTARY).fits(owner.own):
            yield Declared(owner.name, mixins=(ROTARY,))


def _other_rotations(module: Module) -> Iterator[Missing]:
    for owner in _rotating(module):
        why = _why_no_rotation(module)
        if why or not mixin("liger", ROTARY).fits(owner.own):
            what = f"{owner.name} rotates as before: {why or 'its statement is another one'}"
            yield Missing(module.at(owner.node), what)


def _rotating(module: Module) -> list[Class]:
    rotating = []
    for owner in module.classes.values() if ROTATE in module.functions else ():
        calls = walk(owner.own["forward"].body, ast.Call) if "forward" in owner.own else ()
        if [called(call) for call in calls].count(ROTATE) == 1:
            rotating.append(owner)
    return rotating


def _why_no_rotation(module: Module) -> str:
    """Why the kernel does not compute what the module rotates by; "" if it does."""
    rotate, half = module.functions[ROTATE], module.functions.get("rotate_half")
    if half is None:
        return "there is no rotation of halves"
    if _result(rotate) not in ROTATIONS or _result(half) != HALF:
        return "it rotates otherwise"
    cosines = [
        method
        for owner in module.classes.values()
        for method in owner.own.values()
        if any(last(called(call)) == "cos" for call in walk(method.body, ast.Call))
    ]
    if not cosines or not all(TWICE in ast.unparse(method) for method in cosines):
        return "the second half of its cosines may differ from the first"
    return ""


def _result(function: ast.FunctionDef) -> str:
    value = returned(function.body)
    return ast.unparse(value) if value is not None else ""


def _gates(module: Module) -> Iterator[Declared]:
    for owner in module.classes.values():
        if network_of(owner)[0] not in ("gated", "halves"):
            continue  # elsewhere the two factors may have different shapes
        for name in GATES.get(_activation(module, owner), ()):
            if mixin("liger", name).fits(owner.own):
                yield Declared(owner.name, mixins=(name,))


def _activation(module: Module, owner: Class) -> str:
    """The activation that the class takes where its configuration sets none."""
    init = owner.own.get("__init__")
    lookups = [] if init is None else list(walk(init.body, ast.Subscript))
    options = [dotted(node.slice) for node in lookups if dotted(node.value) == "ACT2FN"]
    if init is None or len(options) != 1 or module.folder is None:
        return ""
    by_class: dict[str, object] = {}
    for path in module.folder.glob("configuration_*.py"):
        for config in walk(ast.parse(path.read_text(encoding="utf-8")), ast.ClassDef):
            for node in walk(config, ast.AnnAssign):
                if f"config.{dotted(node.target)}" == options[0]:
                    by_class[config.name] = constant(node.value)
    annotations = [dotted(arg.annotation) for arg in init.args.args if arg.arg == "config"]
    of_class = [by_class[name] for name in annotations if name in by_class]
    values = set(of_class or by_class.values())
    return str(values.pop()) if len(values) == 1 else ""
