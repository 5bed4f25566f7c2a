"""Find what a method uses through `self`, and whether an override still runs the parent's method.

def forward(self, x):           uses forward, act and, if act reads it, scale
    return self.act(x)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.supers.supercall import find_methods, first_parameter, marker_index
from patchgen.syntax.bound import FunctionNode


def collect_self_uses(bodies: Sequence[ClassBody], method: str) -> frozenset[str]:
    """`method` and the members that it reads through `self`, they in turn, and so on."""
    found: set[str] = set()
    waiting = [method]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _find_attributes(bodies, name)
    return frozenset(found)


def _find_attributes(bodies: Sequence[ClassBody], name: str) -> set[str]:
    """The attributes of `self` in the member `name`, as the first class that has it binds it."""
    found: set[str] = set()
    for body in bodies:
        if name not in body.names:
            continue
        for statement in body.binders(name):
            for function in find_methods(statement.node):
                found.update(_find_own_attributes(function))
        # Further classes have been overridden.
        break
    return found


def _find_own_attributes(function: FunctionNode) -> Iterator[str]:
    """Each attribute that a function uses of its first parameter."""
    receiver = first_parameter(function)
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == receiver:
                yield attribute


def always_calls_inherited(bodies: Sequence[ClassBody], method: str) -> bool:
    """Whether each override of `method` in `bodies` calls the method that it overrides."""
    for body in bodies:
        for statement in body.binders(method):
            if not calls_inherited(statement.node, method):
                return False
    return True


def calls_inherited(override: ast.stmt, method: str) -> bool:
    """Whether `super().method` or `Parent.method` occurs in `override`."""
    for node in ast.walk(override):
        # Reading the method counts: it may be called under another name.
        if not isinstance(node, ast.Attribute) or node.attr != method:
            continue
        match node.value:
            case ast.Call(func=ast.Name(id="super")):
                return True
            case owner if marker_index(owner) is not None:
                return True
    return False
