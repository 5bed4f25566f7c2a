"""The liger part: kernels of Liger in place of norms, rotations, gated products and the loss.

Each is declared where the parent's statements compute what the kernel does, and left out, with the
place, where they do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.ffn import network_of
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.fitting import Mixin, mixins
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
_HALF = """x1 = x[..., :x.shape[-1] // 2]
x2 = x[..., x.shape[-1] // 2:]
return torch.cat((-x2, x1), dim=-1)"""
_COS = """cos = cos.unsqueeze(unsqueeze_dim)
sin = sin.unsqueeze(unsqueeze_dim)
"""
_WHOLE = (
    "q_embed = {0} * cos + rotate_half({0}) * sin\nk_embed = {1} * cos + rotate_half({1}) * sin\n"
)
_PART = """rotary_dim = cos.shape[-1]
q_rot, q_pass = (q[..., :rotary_dim], q[..., rotary_dim:])
k_rot, k_pass = (k[..., :rotary_dim], k[..., rotary_dim:])
"""
_JOINED = """q_embed = torch.cat([q_embed, q_pass], dim=-1)
k_embed = torch.cat([k_embed, k_pass], dim=-1)
return (q_embed, k_embed)"""
# The statements of each rotation that the kernel computes: of the halves, over all features or the
# first of them.
ROTATIONS = (
    _COS + _WHOLE.format("q", "k") + "return (q_embed, k_embed)",
    _COS + _PART + _WHOLE.format("q_rot", "k_rot") + _JOINED,
    _COS + _PART + "q_embed = torch.cat([q_rot * cos + rotate_half(q_rot) * sin, q_pass], dim=-1)\n"
    "k_embed = torch.cat([k_rot * cos + rotate_half(k_rot) * sin, k_pass], dim=-1)\n"
    "return (q_embed, k_embed)",
    "q_type, k_type = (q.dtype, k.dtype)\n"
    + _COS
    + _WHOLE.format("q", "k")
    + "return (q_embed.to(q_type), k_embed.to(k_type))",
    "original_dtype = q.dtype\n"
    + _COS
    + _WHOLE.format("q.float()", "k.float()")
    + "return (q_embed.to(original_dtype), k_embed.to(original_dtype))",
)
# What makes the second half of cosines the same as the first.
TWICE = "torch.cat((freqs, freqs), dim=-1)"


def liger(module: Module) -> Contribution:
    """What the part declares for `module`."""
    of_loss = loss(module)
    found = [*_norms(module), *_rotations(module), *_gates(module), *_losses(of_loss)]
    missing = [
        *_other_norms(module),
        *_other_rotations(module),
        *(one for one in of_loss.missing if one.at.line),
    ]
    if not found:
        nothing = Missing(module.at(module.tree), "nothing that a kernel of Liger computes", True)
        return Contribution("liger", missing=(nothing,))
    used = sorted({name for one in found for name in one.mixins})
    takes_loss = not set(used).isdisjoint(LOSSES.values())
    return Contribution(
        "liger",
        SAYS.format(loss=OF_LOSS if takes_loss else ""),
        tuple(found),
        (f"from patchgen.parts.liger import {', '.join(used)}",),
        tuple(Missing(one.at, one.what) for one in missing),
    )


def _norms(module: Module) -> Iterator[Declared]:
    for owner, form in rms_norms(module).items():
        mixin = NORMS.get(FORMS.get(form, ""))
        if mixin is not None:
            yield Declared(owner.name, mixins=(mixin,))


def _other_norms(module: Module) -> Iterator[Missing]:
    for owner, form in rms_norms(module).items():
        if FORMS.get(form, "") not in NORMS:
            yield unknown(module, owner)


def _losses(of_loss: Contribution) -> Iterator[Declared]:
    for one in of_loss.declared:
        mixin = LOSSES.get(one.mixins[0]) if one.mixins else None
        if mixin is not None:
            yield Declared(one.name, mixins=(mixin,))


def _rotations(module: Module) -> Iterator[Declared]:
    if _why_no_rotation(module):
        return
    for owner in module.classes.values():
        if _rotates(owner) and _mixin(ROTARY).fits(owner.own):
            yield Declared(owner.name, mixins=(ROTARY,))


def _rotates(owner: Class) -> bool:
    forward = owner.own.get("forward")
    if forward is None:
        return False
    return [called(call) for call in walk(forward.body, ast.Call)].count(ROTATE) == 1


def _why_no_rotation(module: Module) -> str:
    """Why the kernel does not compute what the module rotates by; "" if it does."""
    rotate, half = module.functions.get(ROTATE), module.functions.get("rotate_half")
    if rotate is None or half is None:
        return "there is no rotation of halves"
    if _statements(rotate) not in ROTATIONS or _statements(half) != _HALF:
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


def _other_rotations(module: Module) -> Iterator[Missing]:
    if ROTATE not in module.functions:
        return
    why = _why_no_rotation(module)
    for owner in module.classes.values():
        if _rotates(owner) and (why or not _mixin(ROTARY).fits(owner.own)):
            what = f"{owner.name} rotates as before: {why or 'its statement is another one'}"
            yield Missing(module.at(owner.node), what)


def _statements(function: ast.FunctionDef) -> str:
    """Without the docstring."""
    nodes = [node for node in function.body if not isinstance(node, ast.Expr)]
    return "\n".join(map(ast.unparse, nodes))


def _gates(module: Module) -> Iterator[Declared]:
    for owner in module.classes.values():
        option = _activation(owner)
        if not option or network_of(owner)[0] not in ("gated", "halves"):
            continue  # elsewhere the two factors may have different shapes
        for name in GATES.get(_default(module, owner, option), ()):
            if _mixin(name).fits(owner.own):
                yield Declared(owner.name, mixins=(name,))


def _activation(owner: Class) -> str:
    """The option of the configuration that names the activation, if the class takes one."""
    init = owner.own.get("__init__")
    lookups = [] if init is None else list(walk(init.body, ast.Subscript))
    names = [dotted(node.slice) for node in lookups if dotted(node.value) == "ACT2FN"]
    return names[0].removeprefix("config.") if len(names) == 1 else ""


def _default(module: Module, owner: Class, option: str) -> str:
    """The value of an option where the configuration that the class is built with sets none."""
    init = owner.own["__init__"]
    annotations = [arg.annotation for arg in init.args.args if arg.arg == "config"]
    wanted = dotted(annotations[0]) if annotations else ""
    by_class = _defaults(module, option)
    values = {by_class[wanted]} if wanted in by_class else set(by_class.values())
    return values.pop() if len(values) == 1 else ""


def _defaults(module: Module, option: str) -> dict[str, str]:
    """The default of an option in each class of a configuration that has it."""
    found: dict[str, str] = {}
    for path in module.folder.glob("configuration_*.py") if module.folder is not None else ():
        for owner in walk(ast.parse(path.read_text(encoding="utf-8")), ast.ClassDef):
            for node in owner.body:
                if isinstance(node, ast.AnnAssign) and dotted(node.target) == option:
                    value = constant(node.value)
                    found[owner.name] = value if isinstance(value, str) else ""
    return found


def _mixin(name: str) -> Mixin:
    return _mixins()[name]


@cache
def _mixins() -> dict[str, Mixin]:
    return {mixin.name: mixin for mixin in mixins("liger")}
