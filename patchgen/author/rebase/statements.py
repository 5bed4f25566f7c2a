"""Three versions of a suite as one: the changes of the declaration, as patches of the new parent.

base                ours                  theirs                 merged
x = f(x)            x = f(x)              x = f(x, scale=s)      x = f(x, scale=s)
return x            x = cap(x)            return x               x = cap(x)
                    return x                                     return x
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.author.align.suites import head_texts, suites_of
from patchgen.author.rebase.order import commute
from patchgen.author.rebase.pairing import Hunk, Paired, pair_statements
from patchgen.author.rebase.sides import Clash, Three
from patchgen.author.rebase.simple import merge_simple
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, plain_text

_Suite = Sequence[ast.stmt]


@dataclass(frozen=True)
class Patch:
    """Lines `first` to `last` of the new parent become `lines`.

    None are replaced if `last` is before `first`: then `lines` go before line `first`.
    """

    first: int
    last: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Changes:
    """What the declaration changes in the new parent, and what is in doubt."""

    patches: tuple[Patch, ...] = ()
    clashes: tuple[Clash, ...] = ()

    def __add__(self, other: Changes) -> Changes:
        return Changes(self.patches + other.patches, self.clashes + other.clashes)


def merge_suites(three: Three, base: _Suite, ours: _Suite, theirs: _Suite) -> Changes:
    """The changes of one suite."""
    if _texts(base) == _texts(ours) or _texts(ours) == _texts(theirs):
        return Changes()
    return _Suites(three, base, ours, theirs).merge()


def _texts(suite: Iterable[ast.stmt]) -> list[str]:
    return [*map(plain_text, suite)]


class _Suites:
    """Three versions of one suite, paired by statement."""

    def __init__(self, three: Three, base: _Suite, ours: _Suite, theirs: _Suite) -> None:
        self.three, self.base, self.ours, self.theirs = three, base, ours, theirs
        self.mine: Paired = pair_statements(base, ours)
        self.upstream: Paired = pair_statements(base, theirs)

    def merge(self) -> Changes:
        done = Changes()
        for hunk in self.mine.hunks:
            done += self._hunk(hunk)
        for place, j in self.mine.pairs.items():
            if plain_text(self.base[place]) != plain_text(self.ours[j]):
                done += self._statement(place, j)
        return done

    # -- runs of statements -----------------------------------------------------------------------

    def _hunk(self, hunk: Hunk) -> Changes:
        """Statements that the declaration has in the place of others, or in addition."""
        new = self.ours[hunk.first : hunk.last]
        if not new:
            return self._deletion(hunk)
        other = self._beside(hunk)
        if other is not None:
            known = self.theirs[other.first : other.last]
            is_same_place = (other.start, other.stop) == (hunk.start, hunk.stop)
            if is_same_place and _texts(new) == _texts(known):
                return Changes()
            both_insert = is_same_place and hunk.start == hunk.stop
            if not both_insert or not commute(new, known):
                return self._clash("both changed these statements", hunk, other)
        for place in range(hunk.start, hunk.stop):
            there = self.upstream.pairs.get(place)
            if there is None or plain_text(self.theirs[there]) != plain_text(self.base[place]):
                what = "the declaration replaces statements that upstream changed"
                return self._clash(what, hunk, self.upstream.hunk_of(place))
        if any(_is_elif(self.three, suite) for suite in (self.theirs, new)):
            return self._clash("the change is in a chain of elif", hunk, None)
        lines = tuple(line for node in new for line in _chunk(self.three, node))
        first, last = self._lines_of(hunk)
        if first == 0:
            return self._clash("the place of the change is gone", hunk, None)
        return Changes((Patch(first, last, lines),))

    def _deletion(self, hunk: Hunk) -> Changes:
        """Statements that the declaration drops: those that are still there, unchanged."""
        done = Changes()
        for place in range(hunk.start, hunk.stop):
            there = self.upstream.pairs.get(place)
            if there is None:
                other = self.upstream.hunk_of(place)
                if other is not None and other.last > other.first:
                    what = "the declaration drops what upstream replaced"
                    return self._clash(what, hunk, other)
                continue
            node = self.theirs[there]
            if plain_text(node) != plain_text(self.base[place]):
                one = Hunk(place, place + 1, hunk.first, hunk.last)
                what = "the declaration drops a statement that upstream changed"
                return self._clash(what, one, Hunk(place, place + 1, there, there + 1))
            first = first_line(node)
            if self.three.theirs.comments(node) == self.three.base.comments(self.base[place]):
                first -= len(self.three.theirs.comments(node))
            done += Changes((Patch(first, node.end_lineno or 0, ()),))
        return done

    def _beside(self, hunk: Hunk) -> Hunk | None:
        """The change of upstream that overlaps, or is an insertion at the same place."""
        for other in self.upstream.hunks:
            overlap = max(hunk.start, other.start) < min(hunk.stop, other.stop)
            inside = other.start == other.stop and hunk.start < other.start < hunk.stop
            around = hunk.start == hunk.stop and other.start < hunk.start < other.stop
            same = hunk.start == hunk.stop == other.start == other.stop
            if overlap or inside or around or same:
                return other
        return None

    def _lines_of(self, hunk: Hunk) -> tuple[int, int]:
        """The lines of the new parent that a hunk replaces, 0 where it has no place."""
        if hunk.stop > hunk.start:
            nodes = [self.theirs[self.upstream.pairs[n]] for n in range(hunk.start, hunk.stop)]
            old = self.base[hunk.start]
            first = first_line(nodes[0])
            if self.three.theirs.comments(nodes[0]) == self.three.base.comments(old):
                first -= len(self.three.theirs.comments(nodes[0]))
            return first, nodes[-1].end_lineno or 0
        behind = self.upstream.pairs.get(hunk.start)
        before = self.upstream.pairs.get(hunk.start - 1)
        if behind is not None and (before is None or self._begins_block(hunk)):
            node = self.theirs[behind]
            line = first_line(node) - len(self.three.theirs.comments(node))
            return line, line - 1
        if before is not None:
            line = (self.theirs[before].end_lineno or 0) + 1
            return line, line - 1
        return 0, 0

    def _begins_block(self, hunk: Hunk) -> bool:
        """Whether a blank line in the declaration parts what is new from what is before it."""
        if not self.ours[hunk.first : hunk.last]:
            return False
        top = first_line(self.ours[hunk.first]) - len(
            self.three.ours.comments(self.ours[hunk.first])
        )
        return not "".join(self.three.ours.lines(top - 1, top - 1)).strip()

    def _clash(self, what: str, hunk: Hunk, other: Hunk | None) -> Changes:
        base = self.base[hunk.start : hunk.stop]
        ours = self.ours[hunk.first : hunk.last]
        theirs = self.theirs[other.first : other.last] if other is not None else ()
        return Changes(clashes=(Clash(what, *map(_code, (base, ours, theirs))),))

    # -- statements -------------------------------------------------------------------------------

    def _statement(self, place: int, j: int) -> Changes:
        """A statement that the declaration changes."""
        base, ours = self.base[place], self.ours[j]
        there = self.upstream.pairs.get(place)
        if there is None:
            hunk = self.upstream.hunk_of(place)
            theirs = self.theirs[hunk.first : hunk.last] if hunk is not None else ()
            what = "the declaration changes a statement that upstream replaced"
            return Changes(clashes=(Clash(what, *map(_code, ([base], [ours], theirs))),))
        return merge_statement(self.three, base, ours, self.theirs[there])


def _code(nodes: Iterable[ast.stmt]) -> str:
    return "\n".join(map(ast.unparse, nodes))


def _chunk(three: Three, node: ast.stmt) -> list[str]:
    """A statement of the declaration with the comments above it."""
    side = three.ours
    above = side.comments(node)
    top = first_line(node) - len(above)
    blank = [""] if not "".join(side.lines(top - 1, top - 1)).strip() else []
    return [*blank, *above, *side.lines(first_line(node), node.end_lineno or 0)]


def _is_elif(three: Three, suite: _Suite) -> bool:
    if not suite or not isinstance(suite[0], ast.If):
        return False
    return any(
        "".join(side.lines(suite[0].lineno, suite[0].lineno)).lstrip().startswith("elif ")
        for side in (three.ours, three.theirs)
        if suite[0].lineno <= len(side.source.lines)
    )


def merge_statement(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """The changes of one statement."""
    if plain_text(base) == plain_text(ours) or plain_text(ours) == plain_text(theirs):
        return Changes()
    first, last = first_line(theirs), theirs.end_lineno or 0
    if plain_text(base) == plain_text(theirs):
        own = three.ours.lines(first_line(ours), ours.end_lineno or 0)
        above = three.ours.comments(ours)
        known = three.theirs.comments(theirs)
        if above != three.base.comments(base) and known == three.base.comments(base):
            own, first = [*above, *own], first - len(known)
        return Changes((Patch(first, last, tuple(own)),))
    if suites_of(base) and type(base) is type(ours) is type(theirs):
        return _merge_compound(three, base, ours, theirs)
    text = merge_simple(three, base, ours, theirs)
    if isinstance(text, Clash):
        return Changes(clashes=(text,))
    indented = (" " * theirs.col_offset + text).split("\n")
    return Changes((Patch(first, last, tuple(indented)),))


def _merge_compound(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """A statement with suites: its head, and each suite by itself."""
    heads = [head_texts(node, plain_text) for node in (base, ours, theirs)]
    if isinstance(base, Function) or heads[0] not in heads[1:]:
        return Changes(clashes=(three.clash("both changed this statement", base, ours, theirs),))
    suites = suites_of(base), suites_of(ours), suites_of(theirs)
    if len({len(one) for one in suites}) > 1:
        return Changes(clashes=(three.clash("both changed this statement", base, ours, theirs),))
    done = Changes()
    if heads[0] == heads[2] != heads[1]:
        done += _own_head(three, ours, theirs)
    for one, mine, upstream in zip(*suites, strict=True):
        if _texts(one) != _texts(mine) and bool(one) != bool(upstream):
            what = "one side changed a branch that the other has no more"
            return Changes(clashes=(three.clash(what, base, ours, theirs),))
        if not one and mine and not upstream:
            done += _own_branch(three, base, ours, theirs)
            continue
        done += merge_suites(three, one, mine, upstream)
    return done


def _own_branch(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """The `else` or `elif` that the declaration adds to an `if`."""
    if not (isinstance(ours, ast.If) and isinstance(theirs, ast.If)):
        what = "the declaration adds a branch to a statement that upstream changed"
        return Changes(clashes=(three.clash(what, base, ours, theirs),))
    lines = three.ours.lines((ours.body[-1].end_lineno or 0) + 1, ours.end_lineno or 0)
    place = (theirs.end_lineno or 0) + 1
    return Changes((Patch(place, place - 1, tuple(lines)),))


def _own_head(three: Three, ours: ast.stmt, theirs: ast.stmt) -> Changes:
    """The head of the declaration's statement in the place of upstream's, which is the old one."""
    first, last = first_line(theirs), head_end(three.theirs.source.lines, theirs)
    lines = three.ours.lines(first_line(ours), head_end(three.ours.source.lines, ours))
    return Changes((Patch(first, last, tuple(lines)),))


def head_end(lines: Sequence[str], node: ast.stmt) -> int:
    """The line on which the head of a compound statement ends."""
    line = first_line(suites_of(node)[0][0]) - 1
    while not lines[line - 1].partition("#")[0].rstrip().endswith(":"):
        line -= 1
    return line
