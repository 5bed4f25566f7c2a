"""The statements below `super().__init__(config)` that turn one `__init__` into another.

The dialect of transformers puts the parent's statements there.  An assignment below replaces the
parent's to the same target, in its place; `del` takes one away; all else follows at the end.  It
does so in every method.

    parent                    wanted                    below super().__init__(config)
    self.up = Linear(...)     self.up = Linear(...)     del self.gate
    self.gate = Linear(...)   self.act = gelu           self.act = gelu
    self.act = silu           self.drop = Dropout()     self.drop = Dropout()
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from patchgen.syntax.same import plain_text

_Changes = tuple[list[str], list[ast.stmt]]


def find_changes(mine: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> _Changes | None:
    """The targets to delete and the statements to write, fewest first; None if there are none."""
    known = {plain_text(node) for node in mine}
    if any(not target_of(node) and plain_text(node) not in known for node in theirs):
        return None
    best: _Changes | None = None
    for place in range(len(mine), -1, -1):
        found = _at(mine[:place], mine[place:], theirs)
        if found is not None and (best is None or _length(found) < _length(best)):
            best = found
    return best


def _length(changes: _Changes) -> int:
    removed, kept = changes
    return len(removed) + sum((node.end_lineno or 0) - node.lineno + 1 for node in kept)


def _at(
    first: Sequence[ast.stmt], last: Sequence[ast.stmt], theirs: Sequence[ast.stmt]
) -> _Changes | None:
    """The changes after which `first` stand for the parent's statements, and `last` follow."""
    pairs = _pair(first, theirs)
    if pairs is None:
        return None
    times = Counter(map(target_of, theirs))
    stays = {target_of(theirs[there]) for _, there in pairs} - {""}
    replaced = [
        here for here, there in pairs if plain_text(first[here]) != plain_text(theirs[there])
    ]
    # The declaration says a target once, and the parent assigns it several times.
    if any(times[target_of(first[here])] > 1 for here in replaced):
        return None
    matched = {there for _, there in pairs}
    removed = [target_of(node) for place, node in enumerate(theirs) if place not in matched]
    if any(not target or target.startswith("(") for target in removed) or stays & {*removed}:
        return None
    known = {plain_text(node) for node in first}
    if any(target_of(node) in stays or plain_text(node) in known for node in last):
        return None
    return list(dict.fromkeys(removed)), [*(first[here] for here in replaced), *last]


def _pair(first: Sequence[ast.stmt], theirs: Sequence[ast.stmt]) -> list[tuple[int, int]] | None:
    """Each of `first` with the next of the parent's that is equal or assigns the same; in order."""
    pairs = []
    there = 0
    for here, node in enumerate(first):
        while there < len(theirs) and not _fits(node, theirs[there]):
            there += 1
        if there == len(theirs):
            return None
        pairs.append((here, there))
        there += 1
    return pairs


def _fits(mine: ast.stmt, theirs: ast.stmt) -> bool:
    if plain_text(mine) == plain_text(theirs):
        return True
    both = isinstance(mine, ast.Assign) and isinstance(theirs, ast.Assign)
    return both and target_of(mine) != "" and target_of(mine) == target_of(theirs)


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
