"""Which statement of a suite is which of the same suite in another version, in order."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.align.suites import best_pairs, measure_similarity, suites_of
from patchgen.syntax.same import plain_text

_ALIKE = 0.5


@dataclass(frozen=True)
class Hunk:
    """Statements `start` to `stop` of the old suite that `first` to `last` of the new replace."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True)
class Paired:
    """The pairs of statements of two suites by place, and what lies between them."""

    pairs: dict[int, int]
    hunks: tuple[Hunk, ...]

    def hunk_of(self, place: int) -> Hunk | None:
        """The hunk that replaces the old statement at `place`."""
        return next((h for h in self.hunks if h.start <= place < h.stop), None)


def pair_statements(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Paired:
    """Equal statements first, then alike ones between them."""
    texts = [*map(plain_text, old)], [*map(plain_text, new)]
    pairs: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    for tag, i, k, j, m in matcher.get_opcodes():
        if tag == "equal":
            pairs |= dict(zip(range(i, k), range(j, m), strict=True))
        else:
            alike = best_pairs(old[i:k], new[j:m], alikeness, _ALIKE)
            pairs |= {i + a: j + b for a, b in alike}
    return Paired(pairs, tuple(_hunks(pairs, len(old), len(new))))


def _hunks(pairs: dict[int, int], old: int, new: int) -> Iterator[Hunk]:
    start = first = 0
    for i, j in [*sorted(pairs.items()), (old, new)]:
        if i > start or j > first:
            yield Hunk(start, i, first, j)
        start, first = i + 1, j + 1


def alikeness(old: ast.stmt, new: ast.stmt) -> float:
    """How much two statements say the same, from 0 to 1.3."""
    if _kind(old) != _kind(new):
        return 0.0
    if suites_of(old):
        return measure_similarity(old, new)
    mine, theirs = Counter(_words(old)), Counter(_words(new))
    share = sum((mine & theirs).values()) * 2 / max(sum(mine.values()) + sum(theirs.values()), 1)
    # Two assignments to the same names are versions of one more often than not.
    return share + 0.3 if targets_of(old) and targets_of(old) == targets_of(new) else share


def _kind(node: ast.stmt) -> type[ast.stmt]:
    return ast.Assign if isinstance(node, ast.AnnAssign) else type(node)


def targets_of(node: ast.stmt) -> str:
    """What an assignment sets, as plain text; "" for any other statement."""
    match node:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return plain_text(target)
        case _:
            return ""


def _words(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                yield word
            case ast.Constant(value=value):
                yield repr(value)
