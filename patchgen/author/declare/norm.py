"""The norm part: a mixin for each known RMSNorm, and the dtype of autocast for each LayerNorm."""

from __future__ import annotations

import ast

from patchgen.author.anatomy.code import called, walk
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import edit
from patchgen.author.declare.variant import Contribution, Declared, Missing

ONE_CALL = "Each RMSNorm is one call of `rms_norm`, rounded as the parent rounds."
AUTOCAST = "Each LayerNorm computes, and gives, autocast's dtype where that is on."

_ROWS = """input_dtype = hidden_states.dtype
hidden_states = hidden_states.to(torch.float32)
variance = hidden_states.pow(2).mean(-1, keepdim=True)
hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
"""
_NORM = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)\n"
# The statements of each known norm.  Others round elsewhere, or are gated, or are no RMSNorm: a
# norm that only looks similar must not match.
FORMS = {
    f"{_ROWS}return self.weight * hidden_states.to(input_dtype)": "FusedRMSNorm",
    f"{_ROWS}return (self.weight * hidden_states).to(input_dtype)": "FusedScaledRMSNorm",
    f"{_ROWS}return (self.weight.to(torch.float32) * hidden_states).to(input_dtype)": (
        "FusedScaledRMSNorm"
    ),
    f"{_NORM}output = self._norm(x.float())\noutput = output * self.weight.float()\n"
    "return output.type_as(x)": "FusedScaledEpsRMSNorm",
    f"{_NORM}output = self._norm(x.float())\noutput = output * (1.0 + self.weight.float())\n"
    "return output.type_as(x)": "FusedOffsetRMSNorm",
    f"{_NORM}return self._norm(x.float()).type_as(x)": "FusedUnweightedRMSNorm",
}


def norm(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = rms_norms(module)
    named = {owner.name: FORMS[form] for owner, form in found.items() if form in FORMS}
    declared = [Declared(name, mixins=(mixin,)) for name, mixin in named.items()]
    layer = [one for owner in module.classes.values() if (one := _layer_norm(owner)) is not None]
    missing = tuple(unknown(module, owner) for owner in found if owner.name not in named)
    if not declared and not layer:
        missing = missing or (
            Missing(module.at(module.tree), "no norm that the part computes is made here"),
        )
        return Contribution(
            "norm", missing=tuple(Missing(one.at, one.what, True) for one in missing)
        )
    says = (
        " ".join([ONE_CALL] * bool(declared) + [AUTOCAST] * bool(layer))
        + " See `patchgen.parts.norm`."
    )
    return Contribution("norm", says, (*declared, *layer), missing)


def rms_norms(module: Module) -> dict[Class, str]:
    """The RMSNorms that the module defines itself, each with its statements."""
    found = {}
    for owner in module.classes.values():
        methods = [owner.own[name] for name in ("_norm", "forward") if name in owner.own]
        nodes = [n for method in methods for n in method.body if not isinstance(n, ast.Expr)]
        text = "\n".join(map(ast.unparse, nodes))
        centred = any(
            isinstance(node.op, ast.Sub) and "mean" in ast.unparse(node.right)
            for node in walk(methods, ast.BinOp)
        )
        if "forward" in owner.own and "sqrt(" in text and ".mean(" in text and not centred:
            found[owner] = text
    return found


def unknown(module: Module, owner: Class) -> Missing:
    return Missing(module.at(owner.node), f"{owner.name} stays: it rounds or computes otherwise")


def _layer_norm(owner: Class) -> Declared | None:
    """The class with LayerNorms that follow autocast, if it creates any."""
    init = owner.own.get("__init__")
    made = (
        sum(called(call) == "nn.LayerNorm" for call in walk(init.body, ast.Call))
        if init is not None
        else 0
    )
    if init is None or not made:
        return None
    if made == 1:
        return Declared(owner.name, mixins=("LowPrecisionNorm",))
    new = "LowPrecisionLayerNorm(...)"
    return Declared(
        owner.name,
        members=(edit("follow_autocast", init, ["nn.LayerNorm(...)"], [new], count=made),),
    )
