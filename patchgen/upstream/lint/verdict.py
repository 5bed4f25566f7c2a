"""Decide whether two lists of statements do the same in another order.

    a = f(x)           b = g(x)
    b = g(x)           a = f(x)            the same, unless `g` reads what `f` changes

In: the statements that Python would run and those that are shipped.  Out: a `Verdict`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from patchgen.upstream.lint.effects import makes_objects, read_effect
from patchgen.upstream.lint.normalize import dumped
from patchgen.upstream.lint.reduce import find_target, reduce_body


class DiffKind(Enum):
    """How two bodies differ."""

    SAME = "do the same"
    ORDER = "the same statements in an order that matters"
    REPEATED = "statements that are there once more"
    POST_INIT = "post_init at another place"
    REPLACED = "an assignment in the place of an earlier one whose value is read"
    OTHER = "other statements"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How bodies differ, and the first statements that show it: Python's, and the shipped one."""

    kind: DiffKind
    ours: ast.stmt | None = None
    theirs: ast.stmt | None = None


def compare_bodies(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Verdict:
    """How the shipped statements `theirs` differ from `ours`, which Python would run."""
    ours, theirs = _drop_imports(ours), _drop_imports(theirs)
    if _dump_all(ours) == _dump_all(theirs):
        return Verdict(DiffKind.SAME)
    # Its place is judged by itself, after all else.
    left, right = _drop_post_init(ours), _drop_post_init(theirs)
    verdict = _compare_reduced(reduce_body(left), reduce_body(right))
    if verdict.kind is not DiffKind.SAME:
        return verdict
    # `post_init` may stand anywhere below the last object that is made.
    has_post_init = len(left) < len(ours)
    if not has_post_init or _post_init_is_last(ours, theirs):
        return verdict
    first = next(statement for statement in ours if is_post_init(statement))
    return Verdict(DiffKind.POST_INIT, first)


def _drop_imports(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    # A local import of what the file imports above is removed by the linter; names that are missing
    # are `dangling`.
    return [s for s in body if not isinstance(s, ast.Import | ast.ImportFrom)]


def _drop_post_init(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in body if not is_post_init(statement)]


def _dump_all(body: Sequence[ast.stmt]) -> list[str]:
    return [dumped(statement) for statement in body]


def _compare_reduced(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Verdict:
    """How two bodies differ in which only statements with an effect are left."""
    left, right = Counter(_dump_all(ours)), Counter(_dump_all(theirs))
    if left == right:
        pair = _find_conflict(ours, theirs)
        return Verdict(DiffKind.ORDER, *pair) if pair else Verdict(DiffKind.SAME)
    missing = _find_surplus(ours, left, right)
    added = _find_surplus(theirs, right, left)
    if added:
        return Verdict(DiffKind.OTHER, missing[0] if missing else None, added[0])
    # The counters differ, so that something is missing.
    first = missing[0]
    if all(right[dumped(statement)] for statement in missing):
        return Verdict(DiffKind.REPEATED, first)
    later = _find_next_assignment(first, ours)
    if later is not None:
        return Verdict(DiffKind.REPLACED, first, later)
    return Verdict(DiffKind.OTHER, first)


def _find_surplus(
    body: Sequence[ast.stmt], own: Counter[str], other: Counter[str]
) -> list[ast.stmt]:
    """The statements of `body` that the other body has less often."""
    found = []
    for statement in body:
        key = dumped(statement)
        if own[key] > other[key]:
            found.append(statement)
    return found


def _find_next_assignment(statement: ast.stmt, body: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement below `statement` that assigns to the same target."""
    target = find_target(statement)
    if target is None:
        return None
    is_below = False
    for other in body:
        if is_below and find_target(other) == target:
            return other
        is_below = is_below or other is statement
    return None


def is_post_init(node: ast.stmt) -> bool:
    """Whether `node` is `self.post_init()`."""
    match node:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name("self"), attr="post_init"), args=[])
        ):
            return True
    return False


def _post_init_is_last(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> bool:
    """Whether neither makes an object after its last `post_init`, which initialises all."""
    for body in (ours, theirs):
        places = [place for place, statement in enumerate(body) if is_post_init(statement)]
        if not places:
            return False
        if any(makes_objects(statement) for statement in body[places[-1] + 1 :]):
            return False
    return True


def _find_conflict(
    ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]
) -> tuple[ast.stmt, ast.stmt] | None:
    """Two statements that cannot change places and did, in Python's order."""
    shipped = _find_shipped_places(ours, theirs)
    effects = [read_effect(statement) for statement in ours]
    for first in range(len(ours)):
        for second in range(first + 1, len(ours)):
            if shipped[first] > shipped[second] and effects[first].conflicts(effects[second]):
                return ours[first], ours[second]
    return None


def _find_shipped_places(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> list[int]:
    """Where each statement of `ours` stands in `theirs`; both have the same ones."""
    places: dict[str, list[int]] = {}
    for place, statement in enumerate(theirs):
        places.setdefault(dumped(statement), []).append(place)
    # Of equal statements, the first is the first.
    return [places[dumped(statement)].pop(0) for statement in ours]
