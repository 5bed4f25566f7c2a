"""Check overrides: a method that is defined twice, or that lacks a parameter of its parent's.

class Child(Parent):
    def forward(self, x): ...
    def forward(self, x, mask): ...     # PG303: Python would ignore the first one
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.supers.supercall import Function
from patchgen.errors import PatchgenError, Problem
from patchgen.syntax.bound import parameters


def find_claimed_twice(body: ClassBody) -> Iterator[Problem]:
    """Methods with two plain definitions in a class body: Python silently ignores the first."""
    for name in sorted(body.names - {"_"}):
        functions = [s for s in body.binders(name) if isinstance(s.node, Function)]
        for one, other in zip(functions, functions[1:], strict=False):
            # Setters and overloads define one name several times on purpose.
            if not _belongs_to(one.node, other.node):
                at = body.at(other, other.node)
                what = f"{name} is defined here and on line {body.at(one, one.node).line}"
                yield PatchgenError("PG303", at, what, "keep one of them").problem


def _belongs_to(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether the second definition uses the first: a setter, or what follows its overloads."""
    assert isinstance(one, Function) and isinstance(other, Function)
    for decorator in other.decorator_list:
        # `@size.setter` above a second `size`.
        if any(isinstance(n, ast.Name) and n.id == other.name for n in ast.walk(decorator)):
            return True
    decorators = [ast.unparse(decorator) for decorator in one.decorator_list]
    return any(decorator.rpartition(".")[2] == "overload" for decorator in decorators)


def find_missing_parameters(bodies: Sequence[ClassBody]) -> Iterator[str]:
    """Notes on overrides that do not take a parameter of the method that they override."""
    for place, body in enumerate(bodies[:-1]):
        for statement in body.statements:
            if not isinstance(statement.node, Function) or statement.removes:
                continue
            if statement.names and len(body.binders(statement.names[0])) == 1:
                yield from _compare_parameters(body, statement.node, bodies[place + 1 :])


def _compare_parameters(
    body: ClassBody, override: Function, behind: Sequence[ClassBody]
) -> Iterator[str]:
    name = override.name
    parent = next((other for other in behind if name in other.names), None)
    # `**kwargs` takes any parameter.
    if parent is None or override.args.kwarg:
        return
    binders = parent.binders(name)
    if len(binders) != 1 or not isinstance(binders[0].node, Function):
        return
    old = binders[0].node
    taken = set(parameters(override))
    if override.args.vararg:
        taken |= {argument.arg for argument in old.args.args}
    # `*args` and `**kwargs` of the parent are no parameters that a caller names.
    for special in (old.args.vararg, old.args.kwarg):
        if special:
            taken.add(special.arg)
    # The first parameter is the object.
    for parameter in parameters(old)[1:]:
        if parameter not in taken:
            own, inherited = f"{body.own_name}.{name}", f"{parent.own_name}.{name}"
            yield f"{own} does not take {parameter}, which {inherited} takes"
