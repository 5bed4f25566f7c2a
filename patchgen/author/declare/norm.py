"""The norm part: a mixin for each known RMSNorm, and the dtype of autocast for each LayerNorm."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from patchgen.author.anatomy.code import called, walk
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import edit
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, refusing
from patchgen.syntax.trees import dotted

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

ONE_CALL = "Each RMSNorm is one call of `rms_norm`, rounded as the parent rounds. "
AUTOCAST = "Each LayerNorm computes, and gives, autocast's dtype where that is on. "
SEE = "See `patchgen.parts.norm`."

_ROWS = """input_dtype = hidden_states.dtype
hidden_states = hidden_states.to(torch.float32)
variance = hidden_states.pow(2).mean(-1, keepdim=True)
hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
"""
_NORM = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)\n"
_CALL = "output = self._norm(x.float())\n"
# The statements of each known norm.  Others round elsewhere, or are gated, or are no RMSNorm: a
# norm that only looks similar must not match.
FORMS = {
    f"{_ROWS}return self.weight * hidden_states.to(input_dtype)": "FusedRMSNorm",
    f"{_ROWS}return (self.weight * hidden_states).to(input_dtype)": "FusedScaledRMSNorm",
    f"{_ROWS}return (self.weight.to(torch.float32) * hidden_states).to(input_dtype)": (
        "FusedScaledRMSNorm"
    ),
    f"{_NORM}{_CALL}output = output * self.weight.float()\nreturn output.type_as(x)": (
        "FusedScaledEpsRMSNorm"
    ),
    f"{_NORM}{_CALL}output = output * (1.0 + self.weight.float())\nreturn output.type_as(x)": (
        "FusedOffsetRMSNorm"
    ),
    f"{_NORM}return self._norm(x.float()).type_as(x)": "FusedUnweightedRMSNorm",
}

# torch's LayerNorm as files of transformers spell it, and how the edit's name ends.
SPELLINGS = {"nn.LayerNorm": "", "torch.nn.LayerNorm": "_of_torch", "LayerNorm": "_by_name"}


@refusing
def norm(module: Module) -> Contribution:
    """What the part declares for `module`."""
    norms = rms_norms(module)
    rms = [Declared(owner.name, mixins=(mixin,)) for owner, mixin in norms.items() if mixin]
    layer: list[Declared] = []
    table = _table_of_norms(module)
    if table is None:
        for owner in module.classes.values():
            layer += _layer_norm(owner, module)
    missing = unknown(module, FORMS.values(), fatal=not (rms or layer))
    if table is not None:
        what = f"the LayerNorms stay: `{ast.unparse(table)[:60]}` makes some of them"
        missing += (Missing(module.at(table), what, fatal=not rms),)
    if not (rms or layer or missing):
        raise Unfit(None, "no norm that the part computes is made here")
    says = SEE
    if layer:
        says = AUTOCAST + says
    if rms:
        says = ONE_CALL + says
    return Contribution("norm", says, (*rms, *layer), missing)


def rms_norms(module: Module) -> dict[Class, str]:
    """The RMSNorms that the module defines itself, each with its mixin, "" if it is not known."""
    norms = {}
    for owner in module.classes.values():
        if "forward" not in owner.own:
            continue
        methods = [owner.own[name] for name in ("_norm", "forward") if name in owner.own]
        statements = [n for method in methods for n in method.body if not isinstance(n, ast.Expr)]
        text = "\n".join(map(ast.unparse, statements))
        if "sqrt(" in text and ".mean(" in text and not _centres(methods):
            norms[owner] = FORMS.get(text, "")
    return norms


def _centres(methods: Iterable[ast.FunctionDef]) -> bool:
    """Whether the mean is subtracted, as in a LayerNorm."""
    for node in walk(methods, ast.BinOp):
        if isinstance(node.op, ast.Sub) and "mean" in ast.unparse(node.right):
            return True
    return False


def unknown(module: Module, mixins: Collection[str], *, fatal: bool = False) -> tuple[Missing, ...]:
    """The RMSNorms that stay as they are, since none of `mixins` computes them."""
    owners = [owner for owner, mixin in rms_norms(module).items() if mixin not in mixins]
    what = "{} stays: it rounds or computes otherwise"
    return tuple(Missing(module.at(owner.node), what.format(owner.name), fatal) for owner in owners)


def _table_of_norms(module: Module) -> ast.Assign | None:
    """`NORM2FN = {"layer_norm": nn.LayerNorm, ...}`, whose values a configuration chooses from."""
    for node in module.tree.body:
        match node:
            case ast.Assign(value=ast.Dict(values=values)):
                if not set(SPELLINGS).isdisjoint(map(dotted, values)):
                    return node
    return None


def _layer_norm(owner: Class, module: Module) -> list[Declared]:
    """The class with LayerNorms that follow autocast, if it creates any."""
    init = owner.own.get("__init__")
    if init is None:
        return []
    created = [called(call) for call in walk(init.body, ast.Call)]
    spellings = [name for name in SPELLINGS if name in created and name not in module.classes]
    if spellings == ["nn.LayerNorm"] and created.count("nn.LayerNorm") == 1:
        return [Declared(owner.name, mixins=("LowPrecisionNorm",))]
    edits = []
    for spelling in spellings:
        name = f"follow_autocast{SPELLINGS[spelling]}"
        old = f"{spelling}(...)"
        new = "LowPrecisionLayerNorm(...)"
        edits.append(edit(name, init, [old], [new], count=created.count(spelling)))
    return [Declared(owner.name, members=tuple(edits))] if edits else []


def check() -> PartCheck:
    from patchgen.verifying.parts.layers import NORM

    return NORM


PART = Part(
    "norm",
    check,
    "each RMSNorm is one kernel, and LayerNorms follow autocast",
    norm,
    counted=("full rows", "autocast"),
)
