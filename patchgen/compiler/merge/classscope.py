"""Check that code in the class body still reads what it read before the merge.

Attribute values, decorators, defaults and annotations are evaluated in the class body, where they
see the names bound above them.  In: the bodies as written.  Out: an order of their statements in
which each reads what it read, with the child's members in the place of the parent's as far as that
allows.

    class Parent:                   class Flat:
        size = 1                        size = 1
        double = size * 2               double = size * 2
    class Child(Parent):                size = 5        # in the parent's place, double would be 10
        size = 5
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.classes.members import Member, lay, members
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import find_class_reads, marker_index
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.scopes import references

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Changed:
    """A read of `name` in the class body, by `statement`, that finds something else than before.

    Before, it found what the statement `written` bound, or a global where that is None; now it
    finds what `merged` binds.
    """

    statement: Statement
    name: str
    written: Key | None
    merged: Statement | None


def read_names(statement: Statement) -> frozenset[str]:
    """The names that `statement` reads when the class body runs."""
    return _read_names(statement.text)


@functools.lru_cache(maxsize=4096)  # every pass asks for every statement of the chain again
def _read_names(text: str) -> frozenset[str]:
    nodes = parse_fragment(text).nodes
    names = {node.attr for node in find_class_reads(nodes[0])}
    for reference in references(map(_without_body, nodes)):
        # What functions read, they find when they are called.
        if reference.eager and not reference.quoted:
            names.add(reference.name)
    return frozenset(names)


def _without_body(node: ast.stmt) -> ast.stmt:
    """`node`, without the body of a method, where nothing is read when the class body runs."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node
    head = copy.copy(node)
    head.body = []
    return head


def read_written_order(bodies: Sequence[ClassBody]) -> dict[tuple[Key, str], Key]:
    """For each statement and name that it reads: the statement of the chain that bound the name.

    That is the last one above it in its own body; for `Parent.name`, the last one of the parent's
    body.
    """
    found: dict[tuple[Key, str], Key] = {}
    for body in bodies:
        bound: dict[str, Key] = {}
        for statement in body.statements:
            for name in read_names(statement):
                if name in bound:
                    found[statement.key, name] = bound[name]
            bound.update(dict.fromkeys(statement.names, statement.key))
            for node in find_class_reads(statement.node):
                parent = bodies[marker_index(node.value) or 0]
                found[statement.key, node.attr] = parent.binders(node.attr)[-1].key
    return found


def find_changed_reads(
    order: Sequence[Statement], written: Mapping[tuple[Key, str], Key]
) -> tuple[Changed, ...]:
    """Every read in the class body `order` that does not find what it found as written.

    A hoisted copy reads the members that were hoisted with it, under their new names.
    """
    bound: dict[str, Statement] = {}
    found: list[Changed] = []
    for statement in order:
        for name in sorted(read_names(statement)):
            before = written.get((statement.key, name))
            now = bound.get(name)
            if now is not None and now.hoisted and statement.hoisted:
                continue
            if before != (now.key if now else None):
                found.append(Changed(statement, name, before, now))
        # Only now: a statement does not read what it binds itself.
        bound.update(dict.fromkeys(statement.names, statement))
    return tuple(found)


def lay_over(bodies: Sequence[ClassBody], after: frozenset[Key]) -> tuple[Statement, ...]:
    """The statements of all classes of the chain as one body; see `members.lay` for `after`."""
    order: tuple[Statement, ...] = ()
    # From the last parent on, as each child overrides what is behind it.
    for body in reversed(bodies):
        order = lay(body.statements, order, after)
    return tuple(statement for statement in order if not statement.removes)


def find_movable(bodies: Sequence[ClassBody], changes: Sequence[Changed]) -> frozenset[Key]:
    """The members that could come after the whole parent, so that reads find what they found."""
    names = {change.name for change in changes}
    readers = {change.statement.key for change in changes}
    found: set[Key] = set()
    # The last class is the one over which the others are laid.
    for body in bodies[:-1]:
        for member in members(body.statements):
            if _is_movable(member, names, readers):
                found.add(member.key)
    return frozenset(found)


def _is_movable(member: Member, names: set[str], readers: set[Key]) -> bool:
    """Whether moving the member below the parents could restore a read."""
    # A removal leaves nothing that could stand anywhere.
    if any(statement.removes for statement in member.statements):
        return False
    if any(statement.key in readers for statement in member.statements):
        return True
    return not names.isdisjoint(member.names)


def report_capture(bodies: Sequence[ClassBody], change: Changed) -> Problem:
    """The problem of a read that no order of the statements restores."""
    body = bodies[change.statement.origin]
    now = f"a global {change.name}"
    if change.merged:
        now = f"{bodies[change.merged.origin].own_name}'s {change.name}"
    before = f"the {change.name} above it" if change.written else f"a global {change.name}"
    what = f"{body.own_name} reads {before} in its class body and would read {now}"
    hint = "give one of them another name"
    return PatchgenError("PG201", body.at(change.statement), what, hint).problem
