"""Whether code that runs in the class body still reads what it read before the merge.

Attribute values, decorators, defaults and annotations are evaluated in the class body, where they see the names bound
above them.  In: the bodies as written.  Out: an order of their statements in which each reads what it read, with the
child's members in the place of the parent's as far as that allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.errors import PatchgenError, Problem
from patchgen.rewrite.classbody import ClassBody, Statement
from patchgen.rewrite.members import lay, members
from patchgen.source.scopes import references

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Changed:
    """`statement` reads `name` in the class body: as written from `written` (None: a global), merged from `merged`."""

    statement: Statement
    name: str
    written: Key | None
    merged: Statement | None


def reads(statement: Statement) -> frozenset[str]:
    """The names that `statement` reads when the class body runs."""
    return frozenset(r.name for r in references(statement.fragment.nodes) if r.eager and not r.quoted)


def written_order(bodies: Sequence[ClassBody]) -> dict[tuple[Key, str], Key]:
    """For each statement and name that it reads: the statement of its own body that bound it last."""
    found: dict[tuple[Key, str], Key] = {}
    for body in bodies:
        bound: dict[str, Key] = {}
        for statement in body.statements:
            found.update({(statement.key, name): bound[name] for name in reads(statement) if name in bound})
            bound.update(dict.fromkeys(statement.names, statement.key))
    return found


def changed_reads(order: Sequence[Statement], written: Mapping[tuple[Key, str], Key]) -> tuple[Changed, ...]:
    """Every read in the class body `order` that does not find what it found as written."""
    bound: dict[str, Statement] = {}
    found = []
    for statement in order:
        for name in sorted(reads(statement)):
            was, is_now = written.get((statement.key, name)), bound.get(name)
            if was != (is_now.key if is_now else None):
                found.append(Changed(statement, name, was, is_now))
        bound.update(dict.fromkeys(statement.names, statement))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Laid:
    """A class body, and the reads that no order keeps."""

    order: tuple[Statement, ...]
    problems: tuple[Problem, ...]


def laid_over(bodies: Sequence[ClassBody]) -> Laid:
    """The statements of all classes of the chain as one body."""
    written = written_order(bodies)
    after: frozenset[Key] = frozenset()
    while True:
        order: tuple[Statement, ...] = ()
        for body in reversed(bodies):
            order = lay(body.statements, order, after)
        order = tuple(statement for statement in order if not statement.removes)
        changes = changed_reads(order, written)
        movable = frozenset(key for change in changes for key in _movable(bodies, change)) - after
        if not movable:
            return Laid(order, tuple(_captured(bodies, change) for change in changes))
        after |= movable


def _movable(bodies: Sequence[ClassBody], change: Changed) -> set[Key]:
    """The members that could come after the whole parent, so that the read finds what it found."""
    found = set()
    for body in bodies[:-1]:
        for member in members(body.statements):
            reader = any(statement.key == change.statement.key for statement in member.statements)
            if (change.name in member.names or reader) and not any(s.removes for s in member.statements):
                found.add(member.key)
    return found


def _captured(bodies: Sequence[ClassBody], change: Changed) -> Problem:
    body = bodies[change.statement.origin]
    now = f"{bodies[change.merged.origin].own_name}'s {change.name}" if change.merged else f"a global {change.name}"
    was = f"the {change.name} above it" if change.written else f"a global {change.name}"
    what = f"{body.own_name} reads {was} in its class body and would read {now}"
    return PatchgenError("PG201", body.at(change.statement), what, "give one of them another name").problem
