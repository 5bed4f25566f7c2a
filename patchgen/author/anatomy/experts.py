"""The experts of a module: by transformers' interface, in a loop, all of them for every token, or rows of tables."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.module import Class, Module

INTERFACE = "use_experts_implementation"


@dataclass(frozen=True, eq=False)
class Experts:
    """A class that holds experts; `kind`: "interface", "loop", "dense" or "gathered"."""

    owner: Class
    kind: str


def experts(module: Module) -> tuple[Experts, ...]:
    """The classes of experts, in the order of the file."""
    return tuple(
        Experts(owner, kind) for owner in module.classes.values() if (kind := _kind(owner))
    )


def _kind(owner: Class) -> str:
    if any(INTERFACE in ast.unparse(one) for one in owner.node.decorator_list):
        return "interface"
    forward = owner.own.get("forward")
    if forward is None:
        return ""
    loops = [loop for loop in walk(forward.body, ast.For) if "expert" in ast.unparse(loop).lower()]
    if loops and any(
        "expert" in ast.unparse(loop.target) + ast.unparse(loop.iter) for loop in loops
    ):
        return "loop"
    products = {last(called(call)) for call in walk(forward.body, ast.Call)}
    if "expert" in owner.name.lower() and "bmm" in products:
        return "dense"
    # Of tables with a row for each expert, those of the best few are read.
    tables = {
        name
        for name, values in owner.attributes.items()
        if any(last(called(v)) == "Embedding" for v in values)
    }
    if "topk" in products and products & tables:
        return "gathered"
    return ""
