"""Whether code that runs in the class body still reads what it read before the merge.

Attribute values, decorators, defaults and annotations are evaluated in the class body, where they see the names bound
above them.  In: the bodies as written.  Out: an order of their statements in which each reads what it read, with the
child's members in the place of the parent's as far as that allows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.classes.members import lay, members
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import find_class_reads, marker_index
from patchgen.errors import PatchgenError, Problem
from patchgen.syntax.scopes import references

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
    return _reads(statement.text)


@functools.lru_cache(maxsize=4096)  # every pass asks for every statement of the chain again
def _reads(text: str) -> frozenset[str]:
    nodes = parse_fragment(text).nodes
    names = {r.name for r in references(nodes) if r.eager and not r.quoted}
    return frozenset(names | {node.attr for node in find_class_reads(nodes[0])})


def read_written_order(bodies: Sequence[ClassBody]) -> dict[tuple[Key, str], Key]:
    """For each statement and name that it reads: the statement that it reads it from, if a class of the chain has it.

    That is the last one above it in its own body; for `Parent.name`, the last one of the parent's body.
    """
    found: dict[tuple[Key, str], Key] = {}
    for body in bodies:
        bound: dict[str, Key] = {}
        for statement in body.statements:
            found.update(
                {(statement.key, name): bound[name] for name in reads(statement) if name in bound}
            )
            bound.update(dict.fromkeys(statement.names, statement.key))
            for node in find_class_reads(statement.node):
                found[statement.key, node.attr] = (
                    bodies[marker_index(node.value) or 0].binders(node.attr)[-1].key
                )
    return found


def find_changed_reads(
    order: Sequence[Statement], written: Mapping[tuple[Key, str], Key]
) -> tuple[Changed, ...]:
    """Every read in the class body `order` that does not find what it found as written.

    A hoisted copy reads the members that were hoisted with it, under their new names.
    """
    bound: dict[str, Statement] = {}
    found = []
    for statement in order:
        for name in sorted(reads(statement)):
            was, is_now = written.get((statement.key, name)), bound.get(name)
            together = is_now is not None and is_now.hoisted and statement.hoisted
            if was != (is_now.key if is_now else None) and not together:
                found.append(Changed(statement, name, was, is_now))
        bound.update(dict.fromkeys(statement.names, statement))
    return tuple(found)


def lay_over(bodies: Sequence[ClassBody], after: frozenset[Key]) -> tuple[Statement, ...]:
    """The statements of all classes of the chain as one body; see `members.lay` for `after`."""
    order: tuple[Statement, ...] = ()
    for body in reversed(bodies):
        order = lay(body.statements, order, after)
    return tuple(statement for statement in order if not statement.removes)


def find_movable(bodies: Sequence[ClassBody], changes: Sequence[Changed]) -> frozenset[Key]:
    """The members that could come after the whole parent, so that the reads find what they found."""
    names = {change.name for change in changes}
    readers = {change.statement.key for change in changes}
    return frozenset(
        member.key
        for body in bodies[:-1]
        for member in members(body.statements)
        if (names & member.names or readers & {statement.key for statement in member.statements})
        and not any(statement.removes for statement in member.statements)
    )


def report_capture(bodies: Sequence[ClassBody], change: Changed) -> Problem:
    """What stands in the way of an order."""
    body = bodies[change.statement.origin]
    now = (
        f"{bodies[change.merged.origin].own_name}'s {change.name}"
        if change.merged
        else f"a global {change.name}"
    )
    was = f"the {change.name} above it" if change.written else f"a global {change.name}"
    what = f"{body.own_name} reads {was} in its class body and would read {now}"
    return PatchgenError(
        "PG201", body.at(change.statement), what, "give one of them another name"
    ).problem
