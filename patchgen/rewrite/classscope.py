"""Whether code that runs in the class body still reads what it read before the merge.

Attribute values, decorators, defaults and annotations are evaluated in the class body, where they see the names bound
above them.  In: the bodies as written, and a merged order of their statements.  Out: the reads that have changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.rewrite.classbody import ClassBody, Statement
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
