"""The norms of a module by what they compute: RMS or LayerNorm, where the weight is applied, with one added or not.

`before`: cast to the dtype of the input, then times the weight; `after`: times the weight, then cast.  In bfloat16
the two differ in the last bit.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import last, walk
from patchgen.author.anatomy.module import Class, Module


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm class of the module itself; `kind` is "rms" or "layer", `cast` "before", "after" or "none"."""

    owner: Class
    kind: str
    cast: str
    adds_one: bool
    weighted: bool
    gated: bool


def norms(module: Module) -> tuple[Norm, ...]:
    """The norms that the module writes out."""
    return tuple(norm for owner in module.classes.values() if (norm := _norm(owner)) is not None)


def uses_layer_norm(module: Module) -> bool:
    """Whether some class makes torch's LayerNorm."""
    return any(last(ast.unparse(call.func)) == "LayerNorm" for call in walk(module.tree, ast.Call))


def _norm(owner: Class) -> Norm | None:
    methods = [
        method
        for name in ("forward", "_norm", "normalize")
        if (method := owner.own.get(name)) is not None
    ]
    if "forward" not in owner.own:
        return None
    text = "\n".join(ast.unparse(method) for method in methods)
    if "rsqrt" not in text and "sqrt(" not in text or ".mean(" not in text:
        return None
    forward = owner.own["forward"]
    centred = any(
        isinstance(node.op, ast.Sub) and "mean" in ast.unparse(node.right)
        for node in walk(methods, ast.BinOp)
    )
    return Norm(
        owner,
        "layer" if centred else "rms",
        _cast(forward),
        "1.0 + self.weight" in text or "1 + self.weight" in text,
        "self.weight" in text or "self.gamma" in text or "self.scale" in text,
        any(arg.arg in ("gate", "z") for arg in forward.args.args),
    )


def _cast(forward: ast.FunctionDef) -> str:
    """Whether what is returned is cast before it meets the weight, or after."""
    for node in walk(forward.body, ast.BinOp):
        if not isinstance(node.op, ast.Mult):
            continue
        for weight, value in ((node.left, node.right), (node.right, node.left)):
            if "self.weight" in ast.unparse(weight) and ".to(" in ast.unparse(value):
                return "before"
    returned = [node.value for node in walk(forward.body, ast.Return) if node.value is not None]
    texts = [ast.unparse(value) for value in returned]
    if any(".to(" in text or ".type_as(" in text for text in texts):
        return "after"
    return "none"
