"""Three versions of a suite as one: the changes of the declaration, as cuts in the new parent.

base                ours                  theirs                 merged
x = f(x)            x = f(x)              x = f(x, scale=s)      x = f(x, scale=s)
return x            x = cap(x)            return x               x = cap(x)
                    return x                                     return x

Within a statement, arguments and elements are merged one by one.  Two changes within one sum, one
condition or one comparison are a clash: there the parts mean something together.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from patchgen.author.align.file import Cut, of_lines
from patchgen.author.align.suites import (
    exchanged,
    head_texts,
    measure_similarity,
    pair_statements,
    suites_of,
)
from patchgen.author.rebase.code import Clash, Code, Three, assigned, clash
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, plain_text

_Entry = ast.expr | None
_BOTH = "both changed this expression"


def merge_expression(base: ast.expr, ours: ast.expr, theirs: ast.expr) -> ast.expr | Clash:
    """An expression with the changes of both sides."""
    if _same(base, ours) or _same(ours, theirs):
        return theirs
    # The declaration does what upstream does, and more.
    if _same(base, theirs) or (_holds(ours, theirs) and not _holds(base, theirs)):
        return ours
    match base, ours, theirs:
        case ast.Call(), ast.Call(), ast.Call():
            return _merge_call(base, ours, theirs)
        case (ast.List() | ast.Set(), ast.List() | ast.Set(), ast.List() | ast.Set()) if all(
            isinstance(element, ast.Constant) and isinstance(element.value, str)
            for element in (*base.elts, *ours.elts, *theirs.elts)
        ):
            return _merge_names(base, ours, theirs)
        case _ if type(base) is type(ours) is type(theirs):
            return _merge_parts(base, ours, theirs)
        case _:
            return clash(_BOTH, base, ours, theirs)


def _merge_parts(base: ast.expr, ours: ast.expr, theirs: ast.expr) -> ast.expr | Clash:
    """An expression in which both changed one part, and nothing else differs."""
    parts = [list(ast.iter_child_nodes(node)) for node in (base, ours, theirs)]
    is_alike = _bare(base) == _bare(ours) == _bare(theirs)
    if not is_alike or len({len(one) for one in parts}) > 1:
        return clash(_BOTH, base, ours, theirs)
    differ = [
        (a, b, c) for a, b, c in zip(*parts, strict=True) if not (_same(a, b) and _same(a, c))
    ]
    if len(differ) > 1 and not isinstance(base, ast.Tuple | ast.List | ast.Set):
        return clash(_BOTH, base, ours, theirs)
    merged: dict[ast.AST, ast.AST] = {}
    for a, b, c in differ:
        if not (isinstance(a, ast.expr) and isinstance(b, ast.expr) and isinstance(c, ast.expr)):
            return clash(_BOTH, base, ours, theirs)
        part = merge_expression(a, b, c)
        if isinstance(part, Clash):
            return part
        merged[c] = part
    return exchanged(theirs, merged)


def _bare(node: ast.AST) -> str:
    """What a node says itself, beside the nodes in it."""
    fields = {k: v for k, v in ast.iter_fields(node) if not isinstance(v, ast.AST | list)}
    return f"{type(node).__name__} {fields}"


def _same(one: ast.AST | None, other: ast.AST | None) -> bool:
    if one is None or other is None:
        return one is other
    return plain_text(one) == plain_text(other)


def _holds(one: ast.expr, other: ast.expr) -> bool:
    return any(_same(node, other) for node in ast.walk(one) if isinstance(node, ast.expr))


# Calls


def _merge_call(base: ast.Call, ours: ast.Call, theirs: ast.Call) -> ast.expr | Clash:
    called = merge_expression(base.func, ours.func, theirs.func)
    if isinstance(called, Clash):
        return called
    # The arguments of the other side are not meant for another function.
    calls = base, ours, theirs
    names = [
        n.func.attr if isinstance(n.func, ast.Attribute) else plain_text(n.func) for n in calls
    ]
    texts = [[*map(plain_text, n.args), *sorted(map(plain_text, n.keywords))] for n in calls]
    if (names[0] != names[1] and texts[0] != texts[2]) or (
        names[0] != names[2] and texts[0] != texts[1]
    ):
        what = "one side calls something else, the other changed the arguments"
        return clash(what, base, ours, theirs)
    merged = _merge_positional(base, ours, theirs)
    if isinstance(merged, Clash):
        return merged
    before, mine, upstream = (
        {k.arg or f"**{plain_text(k.value)}": k.value for k in node.keywords} for node in calls
    )
    added = mine.keys() - before.keys(), upstream.keys() - before.keys()
    if all(added) and added[0] != added[1] and "**" in "".join([*added[0], *added[1]]):
        what = "one side added unpacked arguments, which may hold what the other added"
        return clash(what, base, ours, theirs)
    # By their names, unpacked ones last.
    keywords: list[ast.keyword] = []
    every = dict.fromkeys([*upstream, *mine, *before])
    for name in sorted(every, key=lambda name: name.startswith("**")):
        value = _merge_entry(before.get(name), mine.get(name), upstream.get(name))
        if isinstance(value, Clash):
            return value
        arg = None if name.startswith("**") else name
        keywords += [ast.keyword(arg, value)] if value is not None else []
    return ast.Call(called, merged, keywords)


def _merge_positional(base: ast.Call, ours: ast.Call, theirs: ast.Call) -> list[ast.expr] | Clash:
    texts = [[plain_text(a) for a in node.args] for node in (base, ours, theirs)]
    if texts[0] in texts[1:]:
        return theirs.args if texts[0] == texts[1] else ours.args
    shared = len(base.args)
    if min(len(ours.args), len(theirs.args)) != shared:
        return clash("both changed the positional arguments", base, ours, theirs)
    merged: list[ast.expr] = []
    for arguments in zip(base.args, ours.args, theirs.args, strict=False):
        argument = merge_expression(*arguments)
        if isinstance(argument, Clash):
            return argument
        merged.append(argument)
    return [*merged, *ours.args[shared:], *theirs.args[shared:]]


def _merge_entry(base: _Entry, ours: _Entry, theirs: _Entry) -> _Entry | Clash:
    """One keyword argument; None where it is gone."""
    if _same(base, ours) or _same(ours, theirs):
        return theirs
    if _same(base, theirs):
        return ours
    if base is None or ours is None or theirs is None:
        what = "one side removed what the other changed" if base else "both added this"
        return clash(what, base, ours, theirs)
    return merge_expression(base, ours, theirs)


def _merge_names(
    base: ast.List | ast.Set, ours: ast.List | ast.Set, theirs: ast.List | ast.Set
) -> ast.expr:
    """Names, such as those of layers that are not split: added and removed one by one."""
    before, mine = {*map(plain_text, base.elts)}, {*map(plain_text, ours.elts)}
    kept = [e for e in theirs.elts if plain_text(e) in mine or plain_text(e) not in before]
    known = before | {*map(plain_text, theirs.elts)}
    kept += [e for e in ours.elts if plain_text(e) not in known]
    return ast.List(kept) if isinstance(base, ast.List) else ast.Set(kept)


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


def _pairs_of(old: _Suite, new: _Suite) -> Paired:
    pairs = pair_statements(old, new, plain_text, alikeness, _ALIKE)
    ends = [(-1, -1), *pairs.items(), (len(old), len(new))]
    hunks = [Hunk(i + 1, k, j + 1, m) for (i, j), (k, m) in itertools.pairwise(ends)]
    return Paired(pairs, tuple(h for h in hunks if h.stop > h.start or h.last > h.first))


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
        """What the declaration changes: statements one by one, and hunks of them."""
        done: Changes = []
        for hunk in self.mine.hunks:
            done += self._hunk(hunk)
        for place, j in self.mine.pairs.items():
            base, ours, there = self.base[place], self.ours[j], self.upstream.pairs.get(place)
            if there is not None:
                done += merge_statement(self.three, base, ours, self.theirs[there])
            elif plain_text(base) != plain_text(ours):
                hunk = next(h for h in self.upstream.hunks if h.start <= place < h.stop)
                what = "the declaration changes a statement that upstream replaced"
                done.append(clash(what, base, ours, self.theirs[hunk.first : hunk.last]))
        return done

    def _hunk(self, hunk: Hunk) -> Changes:
        """Statements that the declaration has in the place of others, or in addition."""
        new = self.ours[hunk.first : hunk.last]
        # A change of upstream that overlaps, or is an insertion at the same place.
        for other in self.upstream.hunks:
            is_same_place = other[:2] == hunk[:2]
            if is_same_place or (hunk.start < other.stop and other.start < hunk.stop):
                theirs = self.theirs[other.first : other.last]
                if is_same_place and _texts(new) == _texts(theirs):
                    return []
                return self._clash("both changed these statements", hunk, other)
        for place in range(hunk.start, hunk.stop):
            if plain_text(self._there(place)) != plain_text(self.base[place]):
                what = "the declaration replaces statements that upstream changed"
                return self._clash(what, hunk, None)
        first, last = self._lines_of(hunk)
        if first == 0:
            return self._clash("the place of the change is gone", hunk, None)
        lines: list[str] = []
        for node in new:
            above = self.three.ours.comments(node)
            top = first_line(node) - len(above)
            is_apart = not "".join(self.three.ours.lines(top - 1, top - 1)).strip()
            own = self.three.ours.lines(first_line(node), node.end_lineno or 0)
            lines += [*([""] if is_apart else []), *above, *own]
        return [of_lines(first, last, lines)]

    def _there(self, place: int) -> ast.stmt:
        """What upstream made of a statement that it has."""
        return self.theirs[self.upstream.pairs[place]]

    def _lines_of(self, hunk: Hunk) -> tuple[int, int]:
        """The lines of the new parent that a hunk replaces, 0 where it has no place."""
        pairs, comments = self.upstream.pairs, self.three.theirs.comments
        if hunk.stop > hunk.start:
            # With the comments that were there before.
            node, above = self._there(hunk.start), comments(self._there(hunk.start))
            is_known = above == self.three.base.comments(self.base[hunk.start])
            top = first_line(node) - (len(above) if is_known else 0)
            return top, self._there(hunk.stop - 1).end_lineno or 0
        # A neighbour that upstream moved may have been meant to stay one.
        neighbours = [n for n in (hunk.start - 1, hunk.start) if 0 <= n < len(self.base)]
        moved = {plain_text(self.base[n]) for n in neighbours if n not in pairs}
        inside = (n for one in self.three.theirs.nodes for n in ast.walk(one))
        if any(isinstance(n, ast.stmt) and plain_text(n) in moved for n in inside):
            return 0, 0
        line = 0
        if hunk.start - 1 in pairs:
            line = (self._there(hunk.start - 1).end_lineno or 0) + 1
        elif hunk.start in pairs:
            node = self._there(hunk.start)
            line = first_line(node) - len(comments(node))
        return line, line - 1

    def _clash(self, what: str, hunk: Hunk, other: Hunk | None) -> Changes:
        base = self.base[hunk.start : hunk.stop]
        ours = self.ours[hunk.first : hunk.last]
        theirs = self.theirs[other.first : other.last] if other is not None else ()
        return [clash(what, base, ours, theirs)]


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
        return [merged]
    return [of_lines(first, last, [" " * theirs.col_offset + ast.unparse(merged)])]


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
