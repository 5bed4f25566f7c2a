"""Find where a piece of code, with holes in it, occurs in a method.

Patterns and methods are compared as `ast` has them, so spaces, comments, quotes and parentheses do
not count; whether a name is read or bound does not either.  A hole matches one expression,
everywhere the same; `...` matches the remaining arguments of a call, or a run of statements.

    self.act(gate, ...)         matches self.act(x + 1, scale=2) with gate = x + 1
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from patchgen.syntax.same import NOT_COMPARED, is_same_code
from patchgen.syntax.trees import children, position_of, statements_within

Argument = ast.expr | ast.keyword


@dataclass(frozen=True, slots=True)
class Run:
    """The statements `start` to `stop` of a suite, as the list that the tree has."""

    suite: Sequence[ast.stmt]
    start: int
    stop: int

    @property
    def nodes(self) -> Sequence[ast.stmt]:
        return self.suite[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class Rest:
    """The arguments of `call` that a `...` matched, in their order."""

    call: ast.Call
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """What each hole and `...` stands for; None where nothing has been matched yet."""

    holes: Mapping[str, ast.expr | None]
    rest: Rest | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A place that a pattern fits: statements, or one expression."""

    place: Run | ast.expr
    bound: Bound

    @property
    def nodes(self) -> Sequence[ast.stmt | ast.expr]:
        """What was matched."""
        return self.place.nodes if isinstance(self.place, Run) else (self.place,)


def is_ellipsis(node: ast.AST) -> bool:
    """Whether `node` is `...`, as an expression or as a statement."""
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


def has_dots(node: object) -> TypeGuard[ast.Call]:
    """Whether `node` is a call in which `...` stands for further arguments."""
    return isinstance(node, ast.Call) and any(map(is_ellipsis, node.args))


def arguments(call: ast.Call) -> list[Argument]:
    """The arguments of `call` in the order of the text."""
    every: list[Argument] = [*call.args, *call.keywords]
    return sorted(every, key=position_of)


def suites(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements inside `node`, also of nested functions and classes."""
    for inner in statements_within(node):
        suites_of_one = (getattr(inner, name, []) for name in ("body", "orelse", "finalbody"))
        yield from filter(None, suites_of_one)


def find(pattern: Sequence[ast.stmt], method: ast.AST, holes: Collection[str] = ()) -> list[Match]:
    """The places of `method` that a `with old:` fits, in the order of the text."""
    matches = []
    match pattern:
        case [ast.Expr(value=wanted)] if not is_ellipsis(wanted):
            # A statement that is nothing but the expression is matched as a statement.
            whole = dict(_find_whole(method))
            body = getattr(method, "body", [])
            for fit in find_expressions(wanted, body, holes):
                place = whole.get(id(fit.place), fit.place)
                matches.append(Match(place, fit.bound))
        case _:
            matches += find_statements(pattern, suites(method), holes)
    return sorted(matches, key=lambda fit: position_of(fit.nodes[0]))


def _find_whole(method: ast.AST) -> Iterator[tuple[int, Run]]:
    """The statements that are nothing but an expression, by its id."""
    for suite in suites(method):
        for number, node in enumerate(suite):
            if isinstance(node, ast.Expr):
                yield id(node.value), Run(suite, number, number + 1)


def find_statements(
    pattern: Sequence[ast.stmt], places: Iterable[Sequence[ast.stmt]], holes: Collection[str]
) -> Iterator[Match]:
    """Every run of statements in one of the suites `places` that the `pattern` fits."""
    nothing = Bound(dict.fromkeys(holes))
    for suite in places:
        for start in range(len(suite)):
            # At one place, the shortest match counts.
            end = next(_find_ends(pattern, suite, start, nothing), None)
            if end is not None:
                yield Match(Run(suite, start, end[0]), end[1])


def find_expressions(
    pattern: ast.expr, body: Sequence[ast.stmt], holes: Collection[str]
) -> Iterator[Match]:
    """Every expression in `body` that `pattern` fits."""
    nothing = Bound(dict.fromkeys(holes))
    for statement in body:
        for node in expressions(statement):
            bound = _fit(pattern, node, nothing)
            if bound is not None:
                yield Match(node, bound)


def fit_expression(
    pattern: ast.expr, node: ast.expr, holes: Collection[str]
) -> dict[str, ast.expr] | None:
    """What each hole of `pattern` stands for in `node`; None if that is no such expression."""
    bound = _fit(pattern, node, Bound(dict.fromkeys(holes)))
    if bound is None:
        return None
    return {name: code for name, code in bound.holes.items() if code is not None}


def expressions(root: ast.AST) -> Iterator[ast.expr]:
    """Every expression in `root`, without the pieces of text that an f-string consists of."""
    nodes = [root]
    for node in nodes:
        if isinstance(node, ast.expr) and not isinstance(node, ast.FormattedValue):
            yield node
        inner = children(node)
        if isinstance(node, ast.JoinedStr):
            inner = [part for part in inner if not isinstance(part, ast.Constant)]
        nodes += inner


def _find_ends(
    pattern: Sequence[ast.stmt], suite: Sequence[ast.stmt], at: int, bound: Bound
) -> Iterator[tuple[int, Bound]]:
    """Where a run in `suite` that begins at `at` may end, shortest first."""
    if not pattern:
        yield at, bound
    elif is_ellipsis(pattern[0]):
        for stop in range(at, len(suite) + 1):
            run = Run(suite, at, stop)
            yield from _find_ends(pattern[1:], suite, stop, replace(bound, run=run))
    elif at < len(suite):
        fit = _fit(pattern[0], suite[at], bound)
        if fit is not None:
            yield from _find_ends(pattern[1:], suite, at + 1, fit)


def _fit(pattern: object, code: object, bound: Bound) -> Bound | None:
    """`bound` with what makes `pattern` equal to `code`, or None."""
    if isinstance(pattern, list) and isinstance(code, list):
        # What is not there is no run of statements.
        if pattern and code and isinstance(pattern[0], ast.stmt):
            ends = _find_ends(pattern, code, 0, bound)
            return next((fit for stop, fit in ends if stop == len(code)), None)
        return _fit_all(pattern, code, bound)
    if isinstance(pattern, ast.Name) and pattern.id in bound.holes:
        if not isinstance(code, ast.expr) or isinstance(code, ast.Starred):
            return None
        value = bound.holes[pattern.id]
        # The same hole stands for the same code everywhere.
        if value is not None:
            return bound if is_same_code(value, code) else None
        return replace(bound, holes={**bound.holes, pattern.id: code})
    if type(pattern) is not type(code):
        return None
    if has_dots(pattern):
        assert isinstance(code, ast.Call)
        return _fit_call(pattern, code, bound)
    if isinstance(pattern, ast.AST):
        names = [name for name in pattern._fields if name not in NOT_COMPARED]
        own = [getattr(pattern, name, None) for name in names]
        other = [getattr(code, name, None) for name in names]
        return _fit_all(own, other, bound)
    # `1` and `True` are equal for Python, but for their type.
    return bound if repr(pattern) == repr(code) else None


def _fit_all(pattern: Sequence[object], code: Sequence[object], bound: Bound) -> Bound | None:
    """Match part by part; what one part binds holds for the next."""
    if len(pattern) != len(code):
        return None
    for part, other in zip(pattern, code, strict=True):
        fit = _fit(part, other, bound)
        if fit is None:
            return None
        bound = fit
    return bound


def _fit_call(pattern: ast.Call, code: ast.Call, bound: Bound) -> Bound | None:
    """Match a call with `...`.

    What stands before and after the `...` must be there, keywords by name; the rest is anything.
    """
    place = next(number for number, node in enumerate(pattern.args) if is_ellipsis(node))
    before = pattern.args[:place]
    behind = pattern.args[place + 1 :]
    if len(code.args) < len(before) + len(behind):
        return None
    taken: list[Argument] = list(code.args[: len(before)])
    taken += code.args[len(code.args) - len(behind) :]
    fit = _fit_all([pattern.func, *before, *behind], [code.func, *taken], bound)
    if fit is None:
        return None
    for keyword in pattern.keywords:
        # They may stand in any order.
        for argument in code.keywords:
            new = _fit(keyword, argument, fit)
            if new is not None:
                taken.append(argument)
                fit = new
                break
        else:
            return None
    # By identity: two arguments of one call may be equal code.
    taken_ids = set(map(id, taken))
    rest = tuple(argument for argument in arguments(code) if id(argument) not in taken_ids)
    return replace(fit, rest=Rest(code, rest))
