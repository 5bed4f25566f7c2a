"""The statements around `super().__init__(config)` that turn one `__init__` into another.

The dialect of transformers puts the parent's statements in the place of the call.  What stands
above it comes first.  An assignment below replaces the parent's to the same target, in its place;
`del` takes one away; all else follows at the end.  It does so in every method.

    parent                    wanted                    below super().__init__(config)
    self.up = Linear(...)     self.up = Linear(...)     del self.gate
    self.gate = Linear(...)   self.act = gelu           self.act = gelu
    self.act = silu           self.drop = Dropout()     self.drop = Dropout()
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from patchgen.syntax.same import plain_text


@dataclass(frozen=True)
class Changes:
    """The statements above the call, and below it the targets to delete and the statements.

    Those in `replacing` take the parent's places, `further` follow at the end.
    """

    above: tuple[ast.stmt, ...] = ()
    removed: tuple[str, ...] = ()
    replacing: tuple[ast.stmt, ...] = ()
    further: tuple[ast.stmt, ...] = ()

    @property
    def written(self) -> tuple[ast.stmt, ...]:
        """All statements."""
        return (*self.above, *self.replacing, *self.further)

    @property
    def length(self) -> int:
        """How many lines they take."""
        return len(self.removed) + sum(map(_lines, self.written))


def find_changes(mine: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> Changes | None:
    """The fewest changes that give `mine`; None if there are none."""
    # `super().__init__()` of the parent stays the first statement, whatever is above the call.
    start = int(bool(mine) and bool(theirs) and _is_super_init(mine[0], theirs[0]))
    best: Changes | None = None
    for top in range(start, len(mine)):
        above, left = mine[start:top], [*mine[:start], *mine[top:]]
        known = {plain_text(node) for node in left}
        if any(not target_of(node) and plain_text(node) not in known for node in theirs):
            break
        if best is not None and sum(map(_lines, above)) >= best.length:
            break
        for place in range(len(left), -1, -1):
            found = _at(above, left[:place], left[place:], theirs)
            if found is not None and (best is None or found.length < best.length):
                best = found
    return best


def left_of(theirs: Sequence[ast.stmt], changes: Changes) -> list[ast.stmt]:
    """The statements of the parent that stay as they are."""
    gone = {*changes.removed, *map(target_of, changes.replacing)}
    return [node for node in theirs if target_of(node) not in gone]


def _is_super_init(mine: ast.stmt, theirs: ast.stmt) -> bool:
    is_same = plain_text(mine) == plain_text(theirs)
    return is_same and ast.unparse(theirs).startswith("super().__init__(")


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _at(
    above: Sequence[ast.stmt],
    first: Sequence[ast.stmt],
    last: Sequence[ast.stmt],
    theirs: Sequence[ast.stmt],
) -> Changes | None:
    """The changes after which `first` stand for the parent's statements, and `last` follow."""
    pairs = _pair(first, theirs)
    if pairs is None:
        return None
    stays = {target_of(theirs[there]) for _, there in pairs} - {""}
    replaced = [
        here for here, there in pairs if plain_text(first[here]) != plain_text(theirs[there])
    ]
    matched = {there for _, there in pairs}
    removed = [target_of(node) for place, node in enumerate(theirs) if place not in matched]
    if any(not target or target.startswith("(") for target in removed) or stays & {*removed}:
        return None
    known = {plain_text(node) for node in first}
    if any(target_of(node) in stays or plain_text(node) in known for node in last):
        return None
    replacing = tuple(first[here] for here in replaced)
    return Changes(tuple(above), tuple(dict.fromkeys(removed)), replacing, tuple(last))


def _pair(first: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> list[tuple[int, int]] | None:
    """Each of `first` with the next of the parent's that is equal or assigns the same; in order."""
    pairs = []
    there = 0
    times = Counter(map(target_of, theirs))
    for here, node in enumerate(first):
        while there < len(theirs) and not _fits(node, theirs[there], times):
            there += 1
        if there == len(theirs):
            return None
        pairs.append((here, there))
        there += 1
    return pairs


def _fits(mine: ast.stmt, theirs: ast.stmt, times: Mapping[str, int]) -> bool:
    if plain_text(mine) == plain_text(theirs):
        return True
    target = target_of(mine)
    # The declaration says a target once; what the parent assigns several times stays as it is.
    is_same = target == target_of(theirs) and times[target] == 1 and target != ""
    # Over an assignment with an annotation the dialect keeps the parent's.
    return is_same and isinstance(theirs, ast.Assign)


def target_of(node: ast.stmt) -> str:
    """What an assignment with one target assigns to, as text; "" for any other statement."""
    match node:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _unparse(target)
        case _:
            return ""


@lru_cache(maxsize=4096)
def _unparse(node: ast.expr) -> str:
    return ast.unparse(node)
