"""Check overrides: a method that is defined twice, or that lacks a parameter of its parent's.

class Child(Parent):
    def forward(self, x): ...
    def forward(self, x, mask): ...     # PG303: Python would ignore the first one
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import Function
from patchgen.syntax.bound import parameters
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.trees import mentions


def find_claimed_twice(body: ClassBody) -> Iterator[Problem]:
    """Methods with two plain definitions in a class body: Python silently ignores the first."""
    # `_` is the name of what nobody means to use.
    for name in sorted(body.names - {"_"}):
        functions = [s for s in body.binders(name) if isinstance(s.node, Function)]
        for one, other in itertools.pairwise(functions):
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
        if mentions(decorator, other.name):
            return True
    for decorator in one.decorator_list:
        if ast.unparse(decorator).rpartition(".")[2] == "overload":
            return True
    return False


def find_missing_parameters(bodies: Sequence[ClassBody]) -> Iterator[str]:
    """Notes on overrides that do not take a parameter of the method that they override."""
    for place, body in enumerate(bodies[:-1]):
        for statement in body.statements:
            if not isinstance(statement.node, Function):
                continue
            if _is_override(statement, body):
                yield from _compare_parameters(body, statement.node, bodies[place + 1 :])


def _is_override(statement: Statement, body: ClassBody) -> bool:
    """Whether the method is the only thing that the class binds to its name."""
    # A removal is written as a method that raises.
    if statement.removes or not statement.names:
        return False
    return len(body.binders(statement.names[0])) == 1


def _compare_parameters(
    body: ClassBody, override: Function, behind: Sequence[ClassBody]
) -> Iterator[str]:
    """A note for each parameter that a caller of the parent's method may pass by name."""
    # `**kwargs` takes any parameter.
    if override.args.kwarg:
        return
    name = override.name
    found = _find_overridden(name, behind)
    if found is None:
        return
    parent, old = found
    taken = set(parameters(override))
    # `*args` takes whatever is given by position.
    if override.args.vararg:
        taken.update(argument.arg for argument in old.args.args)
    # `*args` and `**kwargs` of the parent are no parameters that a caller names.
    unnamed = {special.arg for special in (old.args.vararg, old.args.kwarg) if special}
    # The first parameter is the object.
    for parameter in parameters(old)[1:]:
        if parameter not in taken | unnamed:
            own, inherited = f"{body.own_name}.{name}", f"{parent.own_name}.{name}"
            yield f"{own} does not take {parameter}, which {inherited} takes"


def _find_overridden(name: str, behind: Sequence[ClassBody]) -> tuple[ClassBody, Function] | None:
    """The method that the nearest class of `behind` has under `name`, if it is one plain method."""
    for body in behind:
        if name not in body.names:
            continue
        binders = body.binders(name)
        node = binders[0].node
        # A property and its setter are two definitions of one name.
        if len(binders) != 1 or not isinstance(node, Function):
            return None
        return body, node
    return None
