"""The norms of a module: whether each is an RMSNorm or a LayerNorm, and how it applies its weight.

`cast` is "before" if the states are cast to the dtype of the input and then multiplied by the
weight, and "after" if they are multiplied first.  In bfloat16 the two differ in the last bit.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import last, walk
from patchgen.author.anatomy.module import Class, Module


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm class; `kind` is "rms" or "layer", `cast` is "before", "after" or "none"."""

    owner: Class
    kind: str
    cast: str
    adds_one: bool
    weighted: bool
    gated: bool


def norms(module: Module) -> tuple[Norm, ...]:
    """The norms that the module defines itself."""
    found = [_norm(owner) for owner in module.classes.values()]
    return tuple(norm for norm in found if norm is not None)


def uses_layer_norm(module: Module) -> bool:
    """Whether a class uses the LayerNorm of torch."""
    return any(last(ast.unparse(call.func)) == "LayerNorm" for call in walk(module.tree, ast.Call))


def _norm(owner: Class) -> Norm | None:
    forward = owner.own.get("forward")
    if forward is None:
        return None
    methods = [owner.own[name] for name in ("forward", "_norm", "normalize") if name in owner.own]
    text = "\n".join(ast.unparse(method) for method in methods)
    if "sqrt(" not in text or ".mean(" not in text:
        return None
    parameters = {arg.arg for arg in forward.args.args}
    return Norm(
        owner,
        "layer" if _subtracts_mean(methods) else "rms",
        _find_cast(forward),
        adds_one=_has_any(text, "1.0 + self.weight", "1 + self.weight"),
        weighted=_has_any(text, "self.weight", "self.gamma", "self.scale"),
        gated=not parameters.isdisjoint({"gate", "z"}),
    )


def _has_any(text: str, *words: str) -> bool:
    return any(word in text for word in words)


def _subtracts_mean(methods: list[ast.FunctionDef]) -> bool:
    for node in walk(methods, ast.BinOp):
        if isinstance(node.op, ast.Sub) and "mean" in ast.unparse(node.right):
            return True
    return False


def _find_cast(forward: ast.FunctionDef) -> str:
    """Whether the result is cast before or after it is multiplied by the weight."""
    for node in walk(forward.body, ast.BinOp):
        if isinstance(node.op, ast.Mult):
            left, right = ast.unparse(node.left), ast.unparse(node.right)
            if "self.weight" in left and ".to(" in right:
                return "before"
            if "self.weight" in right and ".to(" in left:
                return "before"
    for result in walk(forward.body, ast.Return):
        if result.value is not None and _has_any(ast.unparse(result.value), ".to(", ".type_as("):
            return "after"
    return "none"
