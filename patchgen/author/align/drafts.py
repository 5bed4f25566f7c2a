"""The smallest changes that turn one method into another, each found by its own words.

A draft is what an edit says: code of the parent, and code in its stead.  Statements around a change
are added to it until the place is unique; where an expression is enough, it is the expression.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from patchgen.author.align.ellipsis import headed, make_ellipsis, replace_suite
from patchgen.author.align.expressions import differing, expressions
from patchgen.author.align.suites import Aligned, Row, align_methods, key, suites_of
from patchgen.compiler.edits.pattern import Run, find_statements, suites
from patchgen.syntax.same import Function

_WIDTH = 96
# What an edit costs beside its code: decorator, `def`, `with old:`, `with new:`, a blank line.
OVERHEAD = 5
_MOST_RANGES = 400


@dataclass(frozen=True, eq=False)
class Draft:
    """One edit: `old` becomes `new`, in `count` places.

    Nodes can be made up, with `...` in them.
    """

    old: tuple[ast.stmt, ...] | ast.expr
    new: tuple[ast.stmt, ...] | ast.expr
    count: int = 1

    @property
    def cost(self) -> int:
        """The lines that it takes."""
        return OVERHEAD + _lines(self.old) + max(_lines(self.new), 1)


def drafts(old: Function, new: Function) -> list[Draft] | None:
    """The edits that turn `old` into `new`, in order; None if there are none."""
    aligned = align_methods(old, new)
    work = _Work(old, _group(aligned))
    return work.of_suite(aligned)


def _lines(code: Sequence[ast.stmt] | ast.expr) -> int:
    nodes = code if isinstance(code, Sequence) else [code]
    return sum(_lines_of(node) for node in nodes)


def _lines_of(node: ast.AST) -> int:
    known: int | None = getattr(node, "_align_lines", None)
    if known is None:
        known = sum(1 + max(0, len(line) - 8) // _WIDTH for line in ast.unparse(node).split("\n"))
        node._align_lines = known  # type: ignore[attr-defined]  # unparsing is slow
    return known


def _atoms(row: Row) -> Iterator[tuple[ast.stmt | ast.expr, ast.stmt | ast.expr]]:
    """The possible drafts of a row by itself.

    That is the statement, and the expressions around its one difference.
    """
    if row.state == "changed" and len(row.old) == len(row.new) == 1:
        yield row.old[0], row.new[0]
        if type(row.old[0]) is type(row.new[0]) and not suites_of(row.old[0]):
            yield from differing(row.old[0], row.new[0])
    for head in row.heads:
        yield from differing(*head)


def _group(aligned: Aligned) -> Counter[tuple[str, str]]:
    """How often each change occurs."""
    found: Counter[tuple[str, str]] = Counter()
    for row in aligned.rows:
        found.update({(key(a), key(b)) for a, b in _atoms(row)})
        for inner in row.inside:
            found += _group(inner)
    return found


@dataclass
class _Work:
    """The method that is edited, counted once.

    `changes_drafted` are changes that a draft with a count covers already.
    """

    method: Function
    groups: Counter[tuple[str, str]]
    changes_drafted: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.expressions = Counter(expressions(self.method.body))
        self.suites = list(suites(self.method))

    def places(self, pattern: Sequence[ast.stmt]) -> list[Run]:
        """The places where a converter would find a run of statements."""
        return [m.place for m in find_statements(pattern, self.suites) if isinstance(m.place, Run)]

    def is_unique(self, pattern: Sequence[ast.stmt], wanted: Run | None = None) -> bool:
        """Whether `pattern` is found once, at `wanted`."""
        if len(pattern) == 1 and isinstance(pattern[0], ast.Expr):
            return self.expressions[key(pattern[0].value)] == 1
        found = self.places(pattern)
        if len(found) != 1:
            return False
        place = found[0]
        return wanted is None or (
            place.suite is wanted.suite
            and place.start == wanted.start
            and (place.stop == wanted.stop)
        )

    def of_suite(self, aligned: Aligned) -> list[Draft] | None:
        """The drafts for one suite; None where something in it has no place of its own."""
        rows = aligned.rows
        inner = {
            place: self._opened(row) for place, row in enumerate(rows) if row.state == "opened"
        }
        found: list[tuple[int, int, list[Draft]]] = []
        place = 0
        while place < len(rows):
            row = rows[place]
            if row.state == "same":
                place += 1
                continue
            made = self._at(rows, place, inner, found[-1][1] if found else 0)
            while made is None and found:
                # What stands between belongs to both: they become one.
                gone = found.pop()
                made = self._grown(rows, gone[0], place + 1, found[-1][1] if found else 0)
            if made is None:
                return None
            while found and made[0] < found[-1][1]:
                found.pop()
            found.append(made)
            place = max(made[1], place + 1)
        return [draft for _, _, made in self._joined(rows, found) for draft in made]

    def _joined(
        self, rows: Sequence[Row], found: Sequence[tuple[int, int, list[Draft]]]
    ) -> list[tuple[int, int, list[Draft]]]:
        """Neighbours as one draft where that is shorter."""
        joined: list[tuple[int, int, list[Draft]]] = []
        for start, stop, made in found:
            if (
                joined
                and all(d.count == 1 for d in [*joined[-1][2], *made])
                and made
                and joined[-1][2]
            ):
                both = self._run(rows[joined[-1][0] : stop])
                separate = sum(draft.cost for draft in [*joined[-1][2], *made])
                if both is not None and both.cost <= separate:
                    joined[-1] = (joined[-1][0], stop, [both])
                    continue
            joined.append((start, stop, made))
        return joined

    def _at(
        self, rows: Sequence[Row], place: int, inner: dict[int, list[Draft] | None], floor: int
    ) -> tuple[int, int, list[Draft]] | None:
        """The drafts for the row at `place`, and the rows that they cover."""
        row = rows[place]
        own = inner[place] if row.state == "opened" else self._atomic(row)
        grown = self._grown(rows, place, place + 1, floor)
        if own is None:
            dotted = self._dotted(row) if row.state == "opened" else None
            if dotted is not None and (grown is None or dotted.cost < grown[2][0].cost):
                return place, place + 1, [dotted]
            return grown
        whole = (place, place + 1, own)
        # At the same length a statement is easier to read than a part of one.
        if (
            grown is not None
            and grown[2][0].cost <= sum(draft.cost for draft in own)
            and grown[2][0].count == 1
            and (own and all(draft.count == 1 for draft in own))
        ):
            return grown
        return whole

    def _opened(self, row: Row) -> list[Draft] | None:
        found: list[Draft] = []
        for old, new in row.heads:
            head = self._expression(old, new)
            if head is None:
                return None
            found += head
        for suite in row.inside:
            made = self.of_suite(suite)
            if made is None:
                return None
            found += made
        return found

    def _atomic(self, row: Row) -> list[Draft] | None:
        """The draft of a row by its own words."""
        if len(row.old) != 1 or len(row.new) != 1:
            return None
        pair = key(row.old[0]), key(row.new[0])
        if pair in self.changes_drafted:
            return []
        # The same change in several places: all that the statement matches.
        if self.groups[pair] > 1 and not isinstance(row.old[0], ast.Expr):
            if len(self.places(row.old)) == self.groups[pair]:
                self.changes_drafted.add(pair)
                return [Draft(row.old, row.new, self.groups[pair])]
        if type(row.old[0]) is not type(row.new[0]) or suites_of(row.old[0]):
            return None
        return self._smallest(differing(row.old[0], row.new[0]))

    def _expression(self, old: ast.expr, new: ast.expr) -> list[Draft] | None:
        return self._smallest(differing(old, new))

    def _smallest(self, chain: Sequence[tuple[ast.expr, ast.expr]]) -> list[Draft] | None:
        """The first of the expressions that is found where it changes, and nowhere else."""
        if any((key(a), key(b)) in self.changes_drafted for a, b in chain):
            return []
        for old, new in chain:
            times = self.groups[key(old), key(new)]
            if isinstance(old, ast.Name | ast.Constant) and times < 2:
                continue  # a name alone says nothing of where it stands
            if times and self.expressions[key(old)] == times:
                if times > 1:
                    self.changes_drafted.add((key(old), key(new)))
                return [Draft(old, new, times)]
        return None

    def _grown(
        self, rows: Sequence[Row], start: int, stop: int, floor: int
    ) -> tuple[int, int, list[Draft]] | None:
        """The shortest run of rows around `start` to `stop` whose statements are found once."""
        ranges = [(a, b) for a in range(floor, start + 1) for b in range(stop, len(rows) + 1)]
        ranges = sorted(ranges, key=lambda r: self._cost(rows, *r))[:_MOST_RANGES]
        for a, b in ranges:
            draft = self._run(rows[a:b])
            if draft is not None:
                return a, b, [draft]
        return None

    def _cost(self, rows: Sequence[Row], a: int, b: int) -> int:
        return sum(_lines(row.old) + _lines(row.new) for row in rows[a:b])

    def _run(self, rows: Sequence[Row]) -> Draft | None:
        """The statements of `rows` as one draft, if they are found once."""
        old = tuple(node for row in rows for node in row.old)
        new = tuple(node for row in rows for node in row.new)
        if not old:
            return None
        if not self.is_unique(old):
            return None
        if len(old) == 1 and isinstance(old[0], ast.Expr):
            return Draft(old, new)
        (place,) = self.places(old)
        return Draft(self._brief(old, place), new)

    def _brief(self, old: tuple[ast.stmt, ...], place: Run) -> tuple[ast.stmt, ...]:
        """`old` with `...` for everything that is not needed to find it."""
        if _lines(old) <= 3:
            return old
        ends = (old[0], make_ellipsis(), old[-1]) if len(old) > 2 else old
        choices = [
            tuple(headed(node) for node in ends),
            ends,
            tuple(headed(node) for node in old),
        ]
        choices = [choice for choice in choices if _lines(choice) < _lines(old)]
        for choice in sorted(choices, key=_lines):
            if not (len(choice) == 1 and isinstance(choice[0], ast.Expr)) and self.is_unique(
                choice, place
            ):
                return choice
        return old

    def _dotted(self, row: Row) -> Draft | None:
        """A compound statement with `...` for a run that stays, found by what changes in it."""
        if row.heads:
            return None
        changed = [number for number, suite in enumerate(row.inside) if not suite.is_same]
        if len(changed) != 1:
            return None
        rows = row.inside[changed[0]].rows
        first = next(n for n, one in enumerate(rows) if one.state != "same")
        last = max(n for n, one in enumerate(rows) if one.state != "same") + 1
        best: Draft | None = None
        for before, behind in ((rows[:first], None), (None, rows[last:])):
            old = _with_ellipsis(before, rows[first:last], behind, new=False)
            new = _with_ellipsis(before, rows[first:last], behind, new=True)
            pattern = (replace_suite(row.old[0], changed[0], old),)
            if not self.is_unique(pattern):
                continue
            draft = Draft(pattern, (replace_suite(row.new[0], changed[0], new),))
            best = draft if best is None or draft.cost < best.cost else best
        return best


def _with_ellipsis(
    before: Sequence[Row] | None, rows: Sequence[Row], behind: Sequence[Row] | None, *, new: bool
) -> list[ast.stmt]:
    def with_ellipsis(some: Sequence[Row]) -> list[ast.stmt]:
        return [node for row in some for node in (row.new if new else row.old)]

    middle = with_ellipsis(rows)
    return [
        *(with_ellipsis(before) if before is not None else [make_ellipsis()]),
        *middle,
        *(with_ellipsis(behind) if behind is not None else [make_ellipsis()]),
    ]
