"""The classes of experts in a module, and how each runs its experts."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.module import Class, Module

INTERFACE = "use_experts_implementation"


@dataclass(frozen=True, eq=False)
class Experts:
    """A class that holds experts.

    `kind` is "interface" (that of transformers), "loop" (over experts), "dense" (every expert gets
    every token) or "gathered" (the rows of the best experts are read from a table).
    """

    owner: Class
    kind: str


def experts(module: Module) -> tuple[Experts, ...]:
    """The classes of experts, in the order of the file."""
    kinds = [(owner, _kind(owner)) for owner in module.classes.values()]
    return tuple(Experts(owner, kind) for owner, kind in kinds if kind)


def _kind(owner: Class) -> str:
    if any(INTERFACE in ast.unparse(one) for one in owner.node.decorator_list):
        return "interface"
    forward = owner.own.get("forward")
    if forward is None:
        return ""
    for loop in walk(forward.body, ast.For):
        if "expert" in ast.unparse(loop.target) + ast.unparse(loop.iter):
            return "loop"
    functions = {last(called(call)) for call in walk(forward.body, ast.Call)}
    if "expert" in owner.name.lower() and "bmm" in functions:
        return "dense"
    tables = set()
    for name, values in owner.attributes.items():
        if any(last(called(value)) == "Embedding" for value in values):
            tables.add(name)
    if "topk" in functions and functions & tables:
        return "gathered"
    return ""
