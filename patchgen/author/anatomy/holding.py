"""Which classes the attributes of a class hold, also in lists that are filled step by step."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from patchgen.author.anatomy.code import called, dotted, last, method_of, receiver, walk
from patchgen.author.anatomy.module import Class, constructors

LISTS = ("ModuleList", "Sequential")
ADDING = ("append", "insert", "extend")


def held(owner: Class, attribute: str) -> tuple[str, ...]:
    """The classes of what `self.ATTRIBUTE` holds, also of what is appended to it."""
    return _holdings(owner).get(attribute, ())


@lru_cache(maxsize=4096)
def _holdings(owner: Class) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {
        attribute: list(owner.makes(attribute)) for attribute in owner.attributes
    }
    local: dict[str, list[str]] = {}
    for method in owner.own.values():
        for node in walk(method.body, ast.stmt):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    local.setdefault(name, []).extend(_made(value, local))
                case ast.Expr(value=ast.Call(args=[*_, value]) as call) if (
                    method_of(call) in ADDING
                ):
                    target = dotted(receiver(call))
                    names = found if target.startswith("self.") else local
                    names.setdefault(last(target), []).extend(_made(value, local))
    for attribute, values in owner.attributes.items():
        for value in values:
            if last(called(value)) in LISTS:
                found[attribute] += _made(value, local)
    return {
        attribute: tuple(dict.fromkeys(one for name in names for one in local.get(name, [name])))
        for attribute, names in found.items()
    }


def _made(value: ast.expr, local: Mapping[str, list[str]]) -> list[str]:
    """The names that are called to create `value`, which may be a list with a local name."""
    match value:
        case ast.Name(id=name):
            return local.get(name, [])
        case ast.IfExp(body=ast.Name(id=body), orelse=ast.Name(id=orelse)):  # one of two classes
            return [body, orelse]
    names = [last(called(call)) for call in constructors(value)]
    if isinstance(value, ast.Call) and last(called(value)) in LISTS:
        for arg in value.args:
            inner = arg.value if isinstance(arg, ast.Starred) else arg
            if isinstance(inner, ast.Name):
                names += local.get(inner.id, [])
    return names
