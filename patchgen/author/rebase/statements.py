"""Three versions of a suite as one: the changes of the declaration, as cuts in the new parent.

base                ours                  theirs                 merged
x = f(x)            x = f(x)              x = f(x, scale=s)      x = f(x, scale=s)
return x            x = cap(x)            return x               x = cap(x)
                    return x                                     return x
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from patchgen.author.align.suites import (
    differing,
    head_texts,
    measure_similarity,
    pair_statements,
    suites_of,
)
from patchgen.author.rebase.code import Clash, Code, Cut, Three, assigned, clash, of_lines
from patchgen.author.rebase.expressions import exchanged, merge_expression
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, plain_text

_Suite = Sequence[ast.stmt]
_ALIKE = 0.5
_WORD = re.compile(r"\w+")


# Which statement of a suite is which of another version


class Hunk(NamedTuple):
    """Statements `start` to `stop` of the old suite that `first` to `last` of the new replace."""

    start: int
    stop: int
    first: int
    last: int


class Paired(NamedTuple):
    """The pairs of statements of two suites by place, and what lies between them."""

    pairs: dict[int, int]
    hunks: tuple[Hunk, ...]

    def hunk_of(self, place: int) -> Hunk | None:
        """The hunk that replaces the old statement at `place`."""
        return next((h for h in self.hunks if h.start <= place < h.stop), None)


def _pairs_of(old: _Suite, new: _Suite) -> Paired:
    pairs = pair_statements(old, new, plain_text, alikeness, _ALIKE)
    return Paired(pairs, tuple(_hunks(pairs, len(old), len(new))))


def _hunks(pairs: dict[int, int], old: int, new: int) -> Iterator[Hunk]:
    start = first = 0
    for i, j in [*pairs.items(), (old, new)]:
        if i > start or j > first:
            yield Hunk(start, i, first, j)
        start, first = i + 1, j + 1


def alikeness(old: ast.stmt, new: ast.stmt) -> float:
    """How much two statements say the same, from 0 to 1.3."""
    kinds = [ast.Assign if isinstance(n, ast.AnnAssign) else type(n) for n in (old, new)]
    if kinds[0] is not kinds[1]:
        return 0.0
    if suites_of(old):
        return measure_similarity(old, new)
    words = [Counter(_WORD.findall(ast.unparse(node))) for node in (old, new)]
    share = (words[0] & words[1]).total() * 2 / max(words[0].total() + words[1].total(), 1)
    # Two assignments to the same names are versions of one more often than not.
    targets = [ast.unparse(node).partition(" = ") for node in (old, new)]
    is_named = targets[0][1] and targets[0][0] == targets[1][0]
    return share + 0.3 if is_named else share


# What the declaration changes in the new parent, and what is in doubt.
Changes = list[Cut | Clash]


def merge_suites(three: Three, base: _Suite, ours: _Suite, theirs: _Suite) -> Changes:
    """The changes of one suite."""
    if _texts(base) == _texts(ours) or _texts(ours) == _texts(theirs):
        return []
    return _Suites(three, base, ours, theirs).merge()


def _texts(suite: Iterable[ast.stmt]) -> list[str]:
    return [*map(plain_text, suite)]


class _Suites:
    """Three versions of one suite, paired by statement."""

    def __init__(self, three: Three, base: _Suite, ours: _Suite, theirs: _Suite) -> None:
        self.three, self.base, self.ours, self.theirs = three, base, ours, theirs
        self.mine: Paired = _pairs_of(base, ours)
        self.upstream: Paired = _pairs_of(base, theirs)

    def merge(self) -> Changes:
        done: Changes = []
        for hunk in self.mine.hunks:
            done += self._hunk(hunk)
        for place, j in self.mine.pairs.items():
            if plain_text(self.base[place]) != plain_text(self.ours[j]):
                done += self._statement(place, j)
        return done

    def _statement(self, place: int, j: int) -> Changes:
        """A statement that the declaration changes."""
        base, ours = self.base[place], self.ours[j]
        there = self.upstream.pairs.get(place)
        if there is not None:
            return merge_statement(self.three, base, ours, self.theirs[there])
        hunk = self.upstream.hunk_of(place)
        theirs = self.theirs[hunk.first : hunk.last] if hunk is not None else ()
        what = "the declaration changes a statement that upstream replaced"
        return _elsewhere(self.three, base, ours) or [clash(what, base, ours, theirs)]

    def _hunk(self, hunk: Hunk) -> Changes:
        """Statements that the declaration has in the place of others, or in addition."""
        new = self.ours[hunk.first : hunk.last]
        other = self._beside(hunk)
        if other is not None:
            theirs = self.theirs[other.first : other.last]
            is_same_place = (other.start, other.stop) == (hunk.start, hunk.stop)
            if is_same_place and _texts(new) == _texts(theirs):
                return []
            return self._clash("both changed these statements", hunk, other)
        for place in range(hunk.start, hunk.stop):
            there = self.upstream.pairs.get(place)
            if there is None or plain_text(self.theirs[there]) != plain_text(self.base[place]):
                what = "the declaration replaces statements that upstream changed"
                return self._clash(what, hunk, self.upstream.hunk_of(place))
        lines = [line for node in new for line in _chunk(self.three.ours, node)]
        first, last = self._lines_of(hunk)
        if first == 0:
            return self._clash("the place of the change is gone", hunk, None)
        return [of_lines(first, last, lines)]

    def _is_moved(self, place: int) -> bool:
        """Whether upstream has a statement of this suite elsewhere."""
        if not 0 <= place < len(self.base) or place in self.upstream.pairs:
            return False
        text = plain_text(self.base[place])
        inside = (n for one in self.three.theirs.nodes for n in ast.walk(one))
        return any(isinstance(n, ast.stmt) and plain_text(n) == text for n in inside)

    def _top(self, node: ast.stmt, before: ast.stmt) -> int:
        """The first line of a statement of upstream, with the comments that it had before."""
        above = self.three.theirs.comments(node)
        is_known = above == self.three.base.comments(before)
        return first_line(node) - (len(above) if is_known else 0)

    def _beside(self, hunk: Hunk) -> Hunk | None:
        """The change of upstream that overlaps, or is an insertion at the same place."""
        for other in self.upstream.hunks:
            overlap = hunk.start < other.stop and other.start < hunk.stop
            if overlap or hunk[:2] == other[:2]:
                return other
        return None

    def _lines_of(self, hunk: Hunk) -> tuple[int, int]:
        """The lines of the new parent that a hunk replaces, 0 where it has no place."""
        if hunk.stop > hunk.start:
            nodes = [self.theirs[self.upstream.pairs[n]] for n in range(hunk.start, hunk.stop)]
            return self._top(nodes[0], self.base[hunk.start]), nodes[-1].end_lineno or 0
        behind = self.upstream.pairs.get(hunk.start)
        before = self.upstream.pairs.get(hunk.start - 1)
        # A neighbour that upstream moved may have been meant to stay one.
        if self._is_moved(hunk.start - 1) or self._is_moved(hunk.start):
            return 0, 0
        line = 0
        if before is not None:
            line = (self.theirs[before].end_lineno or 0) + 1
        elif behind is not None:
            node = self.theirs[behind]
            line = first_line(node) - len(self.three.theirs.comments(node))
        return line, line - 1

    def _clash(self, what: str, hunk: Hunk, other: Hunk | None) -> Changes:
        base = self.base[hunk.start : hunk.stop]
        ours = self.ours[hunk.first : hunk.last]
        theirs = self.theirs[other.first : other.last] if other is not None else ()
        return [clash(what, base, ours, theirs)]


def _chunk(side: Code, node: ast.stmt) -> list[str]:
    """A statement of the declaration with the comments above it."""
    above = side.comments(node)
    top = first_line(node) - len(above)
    blank = [""] if not "".join(side.lines(top - 1, top - 1)).strip() else []
    return [*blank, *above, *side.lines(first_line(node), node.end_lineno or 0)]


# One statement


def merge_statement(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """The changes of one statement."""
    if plain_text(base) == plain_text(ours) or plain_text(ours) == plain_text(theirs):
        return []
    first, last = first_line(theirs), theirs.end_lineno or 0
    if plain_text(base) == plain_text(theirs):
        own = three.ours.lines(first_line(ours), ours.end_lineno or 0)
        above, known = three.ours.comments(ours), three.theirs.comments(theirs)
        if above != three.base.comments(base) and known == three.base.comments(base):
            own, first = [*above, *own], first - len(known)
        return [of_lines(first, last, own)]
    if suites_of(base) and type(base) is type(ours) is type(theirs):
        return _merge_compound(three, base, ours, theirs)
    merged = _merge_simple(base, ours, theirs)
    if isinstance(merged, Clash):
        return _elsewhere(three, base, ours, theirs) or [merged]
    return [_in_place_of(theirs, merged)]


def _in_place_of(node: ast.stmt, new: ast.stmt) -> Cut:
    text = " " * node.col_offset + ast.unparse(new)
    return of_lines(first_line(node), node.end_lineno or 0, [text])


def _merge_compound(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """A statement with suites: its head, and each suite by itself."""
    both: Changes = [clash("both changed this statement", base, ours, theirs)]
    heads = [head_texts(node, plain_text) for node in (base, ours, theirs)]
    suites = suites_of(base), suites_of(ours), suites_of(theirs)
    if isinstance(base, Function) or heads[0] not in heads[1:] or len({*map(len, suites)}) > 1:
        return both
    done: Changes = []
    if heads[0] == heads[2] != heads[1]:
        first, last = first_line(theirs), head_end(three.theirs, theirs)
        lines = three.ours.lines(first_line(ours), head_end(three.ours, ours))
        done.append(of_lines(first, last, lines))
    for one, mine, upstream in zip(*suites, strict=True):
        if _texts(one) != _texts(mine) and bool(one) != bool(upstream):
            what = "one side changed a branch that the other has no more"
            return [clash(what, base, ours, theirs)]
        if mine and not one:
            return both
        done += merge_suites(three, one, mine, upstream)
    return done


def head_end(side: Code, node: ast.stmt) -> int:
    """The line on which the head of a compound statement ends."""
    line = first_line(suites_of(node)[0][0]) - 1
    while not side.lines(line, line)[0].partition("#")[0].rstrip().endswith(":"):
        line -= 1
    return line


def _elsewhere(
    three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt | None = None
) -> Changes:
    """The one expression that the declaration changes, where upstream uses it as before.

    That is in the statement `theirs`, or else anywhere, if it stands in the method once.
    """
    if not three.is_free or suites_of(base) or suites_of(ours):
        return []
    for old, new in differing(base, ours):
        before, after = _places(three.base, old), _places(three.theirs, old)
        if isinstance(old, ast.Name | ast.Constant) or len(before) != len(after):
            continue
        if len(before) > 1:
            before = [one for one in before if one.statement is base]
            after = [one for one in after if one.statement is theirs]
        if len(before) == len(after) == 1 and before[0].use == after[0].use:
            statement, node = after[0].statement, after[0].node
            return [_in_place_of(statement, exchanged(statement, {node: new}))]
    return []


class _Place(NamedTuple):
    """Where an expression stands in a method; `use` says what is done with its value."""

    statement: ast.stmt
    node: ast.expr
    use: str


def _places(side: Code, wanted: ast.expr) -> list[_Place]:
    """Where an expression stands in the simple statements of a method."""
    text, found = plain_text(wanted), []
    simple = (n for one in side.nodes for n in ast.walk(one) if isinstance(n, ast.stmt))
    for statement in (n for n in simple if not suites_of(n)):
        for parent in ast.walk(statement):
            for field, value in ast.iter_fields(parent):
                for node in value if isinstance(value, list) else [value]:
                    if isinstance(node, ast.expr) and plain_text(node) == text:
                        called = plain_text(parent.func) if isinstance(parent, ast.Call) else ""
                        attribute = getattr(parent, "attr", getattr(parent, "arg", ""))
                        use = f"{type(parent).__name__} {field} {called} {attribute}"
                        found.append(_Place(statement, node, use))
    return found


def _merge_simple(base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> ast.stmt | Clash:
    """A statement without suites, in which both sides changed something."""
    before, mine, upstream = map(assigned, (base, ours, theirs))
    if before is None or mine is None or upstream is None:
        return clash("both changed this statement", base, ours, theirs)
    value = merge_expression(before[1], mine[1], upstream[1])
    if isinstance(value, Clash):
        return value
    if before[0] not in (mine[0], upstream[0]):
        return clash("both changed this assignment", base, ours, theirs)
    if mine[0] != before[0]:
        return exchanged(ours, {mine[1]: value})
    return exchanged(theirs, {upstream[1]: value})
