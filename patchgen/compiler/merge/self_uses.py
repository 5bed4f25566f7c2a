"""What a method of the chain uses through its own object, and whether an override still runs it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.supers.supercall import find_methods, first_parameter, marker_index


def collect_self_uses(bodies: Sequence[ClassBody], method: str) -> frozenset[str]:
    """`method` and the members that it reads of its object, they in turn, and so on."""
    found: set[str] = set()
    waiting = [method]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _attributes(bodies, name)
    return frozenset(found)


def _attributes(bodies: Sequence[ClassBody], name: str) -> set[str]:
    body = next((body for body in bodies if name in body.names), None)
    if body is None:
        return set()
    found = set()
    for statement in body.binders(name):
        for function in find_methods(statement.node):
            receiver = first_parameter(function)
            found |= {
                node.attr
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == receiver
            }
    return found


def always_calls_inherited(bodies: Sequence[ClassBody], method: str) -> bool:
    """Whether each override of `method` in `bodies` calls the one that it overrides."""
    overrides = [statement for body in bodies for statement in body.binders(method)]
    return all(calls_inherited(statement.node, method) for statement in overrides)


def calls_inherited(override: ast.stmt, method: str) -> bool:
    """Whether `super().method` or `Parent.method` occurs in `override`."""
    for node in ast.walk(override):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if (
                name == method
            ):
                return True
            case ast.Attribute(value=owner, attr=name) if (
                name == method and marker_index(owner) is not None
            ):
                return True
            case _:
                pass
    return False
