"""What a class says about an inherited method that its author should know: claimed twice, or a parameter missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import Function
from patchgen.errors import PatchgenError, Problem
from patchgen.syntax.scopes import parameters


def find_claimed_twice(body: ClassBody) -> Iterator[Problem]:
    """Two plain definitions of one method in a class body: the first would be ignored without a word."""
    for name in sorted(body.names - {"_"}):
        functions = [s for s in body.binders(name) if isinstance(s.node, Function)]
        for one, other in zip(functions, functions[1:], strict=False):
            if not _belongs_to(one.node, other.node):
                what = f"{name} is defined here and on line {body.at(one, one.node).line}"
                yield PatchgenError(
                    "PG303", body.at(other, other.node), what, "keep one of them"
                ).problem


def _belongs_to(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether the second definition makes use of the first: a setter, an implementation after its overloads."""
    assert isinstance(one, Function) and isinstance(other, Function)
    reads = {n.id for d in other.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
    overloads = {ast.unparse(d).rpartition(".")[2] for d in one.decorator_list}
    return other.name in reads or "overload" in overloads


def find_missing_parameters(bodies: Sequence[ClassBody]) -> Iterator[str]:
    """Notes on overrides that do not take a parameter of the method that they override."""
    for place, body in enumerate(bodies[:-1]):
        for statement in body.statements:
            alone = len(body.binders(statement.names[0])) == 1 if statement.names else False
            if alone and isinstance(statement.node, Function) and not statement.removes:
                yield from _missing(body, statement, bodies[place + 1 :])


def _missing(body: ClassBody, statement: Statement, behind: Sequence[ClassBody]) -> Iterator[str]:
    node = statement.node
    assert isinstance(node, Function)
    parent = next((other for other in behind if node.name in other.names), None)
    binders = parent.binders(node.name) if parent else ()
    old = binders[0].node if len(binders) == 1 else None
    if not isinstance(old, Function) or node.args.kwarg or parent is None:
        return
    taken = {*parameters(node), *([a.arg for a in old.args.args] if node.args.vararg else [])}
    special = {a.arg for a in (old.args.vararg, old.args.kwarg) if a}
    for name in parameters(old)[1:]:
        if name not in taken and name not in special:
            yield f"{body.own_name}.{node.name} does not take {name}, which {parent.own_name}.{node.name} takes"
