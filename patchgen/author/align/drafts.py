"""The shortest changes that turn one method into another, each found by its own words.

A draft is a pair of an edit: code of the parent, and code in its stead, before or behind it.
Statements around a change are added to it until the place is unique; where an expression is enough,
it is the expression.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.author.align.suites import (
    Pair,
    Row,
    Rows,
    Statements,
    align_methods,
    differing,
    key,
    suites_of,
)
from patchgen.compiler.edits.pattern import (
    Run,
    arguments,
    expressions,
    find,
    suites,
)
from patchgen.syntax.trees import Function

_WIDTH = 96
# Longer runs of statements are not looked at to find a place.
_WIDEST = 24


@dataclass(frozen=True, eq=False)
class Draft:
    """One pair: `new` in the place of `old`, or `before` or `after` it.

    Nodes can be made up, with `...` in them.
    """

    old: Statements | ast.expr
    new: Statements | ast.expr
    word: str = "new"

    @property
    def body(self) -> Statements:
        """What stands under `with old:`."""
        return self.old if isinstance(self.old, tuple) else (ast.Expr(self.old),)

    @property
    def code(self) -> Statements:
        """What stands under `with new:`."""
        return self.new if isinstance(self.new, tuple) else (ast.Expr(self.new),)

    @property
    def cost(self) -> int:
        """The lines that it takes, with `with old:` and `with new:`."""
        return 2 + _lines(self.old) + max(_lines(self.new), 1)


def drafts(
    old: Function, new: Function, *, there: Function | None = None, is_brief: bool = True
) -> tuple[Draft, ...] | None:
    """The drafts that turn the body of `old` into that of `new`; None if there are none.

    Statements are named by a part of them that is enough to find them if `is_brief`, and else in
    full.  With `there`, another version of `old`, the places are found in both.
    """
    return _Work([_Places(method) for method in (old, there) if method], is_brief).of_suite(
        align_methods(old, new)
    )


def is_made_up(node: ast.AST) -> bool:
    """Whether a node is in neither file, because it has `...` for what is left out."""
    return getattr(node, "_made_up", False)


def _make_up(node: ast.stmt) -> ast.stmt:
    node._made_up = True  # type: ignore[attr-defined]
    return ast.fix_missing_locations(node)


def make_ellipsis() -> ast.stmt:
    """`...` as a statement."""
    return _make_up(ast.Expr(ast.Constant(...)))


def headed(node: ast.stmt) -> ast.stmt:
    """A compound statement by its head alone, and a long call without its arguments."""
    match node:
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith():
            if getattr(node, "orelse", []):  # two `...` would stand for one and the same
                return node
            shortened: dict[str, object] = {"body": [make_ellipsis()]}
        case ast.Assign() | ast.AnnAssign() | ast.Return() if isinstance(node.value, ast.Call):
            if _lines_of(node) < 2:
                return node
            shortened = {"value": ast.Call(node.value.func, [ast.Constant(...)], [])}
        case _:
            return node
    return _make_up(type(node)(**dict(ast.iter_fields(node)) | shortened))


def _with_rest(old: ast.expr, new: ast.expr, *, is_last: bool = False) -> Pair | None:
    """Two calls of the same with `...` for the arguments with which both begin, or end."""
    if not isinstance(old, ast.Call) or not isinstance(new, ast.Call):
        return None
    if key(old.func) != key(new.func) or key(old) == key(new):
        return None
    step = -1 if is_last else 1
    before = arguments(old)[::step]
    after = arguments(new)[::step]
    same = 0
    for mine, theirs in zip(before, after, strict=False):
        if key(mine) != key(theirs):
            break
        # The converter puts arguments in front of `**kwargs`, which `...` would stand for.
        if isinstance(mine, ast.keyword) and mine.arg is None:
            return None
        same += 1
    if not same and not is_last:
        return None
    left = _with_dots(old, before[same:][::step], is_last)
    right = _with_dots(new, after[same:][::step], is_last)
    return left, right


def _with_dots(call: ast.Call, rest: Sequence[ast.AST], is_last: bool) -> ast.Call:
    """The call with the arguments `rest` alone, and `...` for those before or behind them."""
    plain = [argument for argument in rest if isinstance(argument, ast.expr)]
    named = [argument for argument in rest if isinstance(argument, ast.keyword)]
    dots = ast.Constant(...)
    return ast.Call(call.func, [*plain, dots] if is_last else [dots, *plain], named)


def _by_name(old: ast.expr, new: ast.expr) -> Pair | None:
    """Two calls of the same with `...` for all but the keywords of which only one has the like."""
    if not isinstance(old, ast.Call) or not isinstance(new, ast.Call):
        return None
    before = (old.func, *old.args)
    after = (new.func, *new.args)
    is_same = [*map(key, before)] == [*map(key, after)]
    if not is_same:
        return None
    dots: list[ast.expr] = [ast.Constant(...)]
    gone = _differing(old.keywords, new.keywords)
    added = _differing(new.keywords, old.keywords)
    without = ast.Call(old.func, dots, gone)
    with_added = ast.Call(new.func, dots, added)
    return without, with_added


def _differing(keywords: Sequence[ast.keyword], others: Sequence[ast.keyword]) -> list[ast.keyword]:
    said = {*map(key, others)}
    return [keyword for keyword in keywords if key(keyword) not in said]


def _lines(code: Sequence[ast.stmt] | ast.expr) -> int:
    return sum(map(_lines_of, code if isinstance(code, Sequence) else [code]))


def _lines_of(node: ast.AST) -> int:
    lines: int | None = getattr(node, "_align_lines", None)
    if lines is None:
        lines = sum(1 + max(0, len(line) - 8) // _WIDTH for line in ast.unparse(node).split("\n"))
        node._align_lines = lines  # type: ignore[attr-defined]  # unparsing is slow
    return lines


def _joined(suite: Sequence[ast.stmt]) -> str:
    return "".join(f"{key(node)}\n" for node in suite)


def _has_dots(code: ast.AST) -> bool:
    return any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(code))


def _are_same(rows: Iterable[Row]) -> bool:
    return all(row.state == "same" for row in rows)


_Drafts = tuple[Draft, ...]
# The lines that drafts take, and the drafts.
_Choice = tuple[int, _Drafts]


class _Places:
    """A method in which places are looked for, counted once."""

    def __init__(self, method: Function) -> None:
        self.method = method
        self.expressions = Counter(key(n) for node in method.body for n in expressions(node))
        self.suites = list(suites(method))
        self.texts = [_joined(suite) for suite in self.suites]

    def count(self, pattern: Sequence[ast.stmt]) -> int:
        """How often a converter would find a run of statements."""
        if any(map(_has_dots, pattern)):
            return len(find(pattern, self.method))
        if len(pattern) == 1 and isinstance(pattern[0], ast.Expr):
            return self.expressions[key(pattern[0].value)]
        return sum(text.count(_joined(pattern)) for text in self.texts)


@dataclass
class _Work:  # the method that is edited, and another one that has its places
    methods: list[_Places]
    is_brief: bool

    def is_found(self, pattern: Sequence[ast.stmt]) -> bool:
        """Whether a run of statements is found once in each method."""
        return all(method.count(pattern) == 1 for method in self.methods)

    def of_suite(self, rows: Rows) -> _Drafts | None:
        """The shortest drafts for one suite; None where something in it has no place of its own."""
        best: list[_Choice | None] = [(0, ())]
        for stop in range(1, len(rows) + 1):
            best.append(self._shortest(rows[:stop], best))
        choice = best[-1]
        return choice[1] if choice is not None else None

    def _shortest(self, rows: Rows, best: Sequence[_Choice | None]) -> _Choice | None:
        """The lines and the drafts of `rows`; best[i] are those of the first i of them."""
        last = rows[-1]
        before = best[-1]
        choice = None
        if before is not None:
            inner = () if last.state == "same" else self._of_row(last)
            if inner is not None:
                lines, earlier = before
                choice = lines + sum(draft.cost for draft in inner), (*earlier, *inner)
        cost = 0
        stop = len(rows)
        for start in range(stop - 1, max(-1, stop - 1 - _WIDEST), -1):
            # At least so many lines are needed where a run has this row.
            cost += 1 if rows[start].state == "same" else _lines(rows[start].new)
            before = best[start]
            if before is None or _are_same(rows[start:]):
                continue
            lines, earlier = before
            # An expression of the same length says less of where it stands than a statement.
            if choice is not None and lines + cost > choice[0]:
                continue
            run = self._of_run(rows[start:])
            if run is None:
                continue
            total = lines + run.cost
            # Of two anchors, the one above says more of what is inserted.
            worth = total + (run.word == "before")
            if choice is None or worth <= choice[0]:
                choice = total, (*earlier, run)
        return choice

    def _of_row(self, row: Row) -> _Drafts | None:
        """The drafts inside a row, which leave its statement where it is."""
        if row.state == "changed":
            match row.old, row.new:
                case [before], [after] if type(before) is type(after) and not suites_of(before):
                    return self._smallest(differing(before, after))
            return None
        parts: list[Draft] = []
        for pair in row.heads:
            head = self._smallest(differing(*pair))
            if head is None and all(map(_are_same, row.inside)):
                old = headed(row.old[0])
                new = headed(row.new[0])
                head = (Draft((old,), (new,)),) if self.is_found([old]) else None
            if head is None:
                return None
            parts += head
        for suite in row.inside:
            inner = self.of_suite(suite)
            if inner is None:
                return None
            parts += inner
        return tuple(parts)

    def _smallest(self, chain: Sequence[Pair]) -> _Drafts | None:
        """The first of the expressions that is found where it changes, and nowhere else."""
        for old, new in chain:
            brief = _with_rest(old, new)
            # `...` stands for what upstream adds to a call, too: one of a line is written out,
            # unless it is another one by now.
            last = _with_rest(old, new, is_last=True)
            choices = [brief, (old, new)] if _lines_of(old) > 1 else [(old, new)]
            if len(self.methods) > 1:
                choices += [brief, last, _by_name(old, new)]
            for choice in choices:
                # A name alone says nothing of where it stands.
                if choice and not isinstance(old, ast.Name | ast.Constant):
                    if self.is_found([ast.Expr(choice[0])]):
                        return (Draft(*choice),)
        return None

    def _of_run(self, rows: Sequence[Row]) -> Draft | None:
        """The statements of `rows` as one draft, if they are found once."""
        old: list[ast.stmt] = []
        new: list[ast.stmt] = []
        for row in rows:
            old += row.old
            new += row.new
        if not old or not self.is_found(old):
            return None
        pattern = self._brief(tuple(old))
        if not rows[0].old and _are_same(rows[1:]):
            return Draft(pattern, rows[0].new, "before")
        if not rows[-1].old and _are_same(rows[:-1]):
            return Draft(pattern, rows[-1].new, "after")
        return Draft(pattern, tuple(new))

    def _brief(self, old: Statements) -> Statements:
        """`old` with `...` for everything that is not needed to find it."""
        length = _lines(old)
        is_expression = len(old) == 1 and isinstance(old[0], ast.Expr)
        if not self.is_brief or length < 2 or is_expression:
            return old
        ends = old
        if len(old) > 2:
            ends = (old[0], make_ellipsis(), old[-1])
        choices = [tuple(map(headed, ends)), ends, tuple(map(headed, old))]
        for choice in sorted(choices, key=_lines):
            if _lines(choice) < length and self._finds(choice, old):
                return choice
        return old

    def _finds(self, pattern: Statements, run: Statements) -> bool:
        """Whether a pattern is found once in each method, and in the edited one at `run`."""
        found = []
        for match in find(pattern, self.methods[0].method):
            if isinstance(match.place, Run):
                found.append(tuple(match.place.nodes))
        # Nodes are equal to themselves alone.
        return found == [run] and self.is_found(pattern)
