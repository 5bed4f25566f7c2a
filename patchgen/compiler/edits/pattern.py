"""Find where a piece of code, with holes in it, occurs in a method.

Patterns and methods are compared as `syntax` sees them.  A hole matches one expression, everywhere
the same; `...` matches the remaining arguments of a call, or a run of statements.

    self.act(gate, ...)         matches self.act(x + 1, scale=2) with gate = x + 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from patchgen.compiler.edits.syntax import (
    Statement,
    arguments,
    expressions,
    is_ellipsis,
    is_node,
    kind,
    parts,
    statements,
)
from patchgen.compiler.edits.tree import Tree


@dataclass(frozen=True, slots=True)
class Run:
    """The statements `start` to `stop` of a suite, counted as `syntax.statements` does."""

    suite: cst.BaseSuite
    start: int
    stop: int

    @property
    def nodes(self) -> tuple[Statement, ...]:
        return statements(self.suite)[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class Rest:
    """The arguments of `call` that a `...` matched, in their order."""

    call: cst.Call
    arguments: tuple[cst.Arg, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """What each hole and `...` stands for; None where nothing has been matched yet."""

    holes: Mapping[str, cst.CSTNode | None]
    rest: Rest | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A place that a pattern fits: statements, or one expression."""

    place: Run | cst.BaseExpression
    bound: Bound

    @property
    def nodes(self) -> Sequence[cst.CSTNode]:
        """What was matched."""
        return self.place.nodes if isinstance(self.place, Run) else (self.place,)


def find_statements(pattern: cst.BaseSuite, method: Tree, holes: Sequence[str]) -> Iterator[Match]:
    """Every run of statements of one suite of `method` that the statements of `pattern` fit."""
    wanted, nothing = statements(pattern), Bound(dict.fromkeys(holes))
    for suite in suites(method):
        code = statements(suite)
        for start in range(len(code)):
            # At one place, the shortest match counts.
            found = next(_find_ends(wanted, suite, code, start, nothing), None)
            if found is not None:
                stop, bound = found
                yield Match(Run(suite, start, stop), bound)


def find_expressions(
    pattern: cst.BaseExpression, method: Tree, holes: Sequence[str]
) -> Iterator[Match]:
    """Every expression in the body of `method` that `pattern` fits."""
    # An expression that is no node of the tree cannot be replaced.
    for node in expressions(method.function.body):
        bound = _fit(pattern, node, Bound(dict.fromkeys(holes)))
        # `expressions` also gives the tuple of `x[a, b]`, which is no node of the tree.
        if bound is not None and id(node) in method.spans:
            yield Match(node, bound)


def suites(method: Tree) -> Iterator[cst.BaseSuite]:
    """Every suite inside `method`, also of nested functions and classes, in the order of the text.

    One that holds an `elif` is no node of the method's tree.
    """
    for node in method.nodes:
        # Nearly all nodes are neither: `isinstance` would ask libcst's abstract classes each time.
        if type(node) not in (cst.IndentedBlock, cst.SimpleStatementSuite, cst.If):
            continue
        if isinstance(node, cst.BaseSuite):
            yield node
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            yield cst.IndentedBlock([node.orelse])


def same(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Whether two nodes are the same code; nothing in them is a hole, and `...` is an ellipsis."""
    if kind(type(left)) != kind(type(right)):
        return False
    return _are_same(parts(left), parts(right))


def _are_same(left: object, right: object) -> bool:
    """Whether two values that `parts` gives are the same code."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_are_same, left, right))
    if is_node(left) and is_node(right):
        return same(left, right)
    return _are_equal(left, right)


def _are_equal(left: object, right: object) -> bool:
    """Whether two values without parts are equal."""
    # `1` and `True` are equal for Python.
    return type(left) is type(right) and left == right


def _find_ends(
    pattern: Sequence[Statement],
    suite: cst.BaseSuite,
    code: Sequence[Statement],
    at: int,
    bound: Bound,
) -> Iterator[tuple[int, Bound]]:
    """Where a run in `suite`, whose statements are `code`, may end, shortest first.

    It begins at `at`.
    """
    if not pattern:
        yield at, bound
    # Try every length, the shortest first.
    elif is_ellipsis(pattern[0]):
        for stop in range(at, len(code) + 1):
            longer = replace(bound, run=Run(suite, at, stop))
            yield from _find_ends(pattern[1:], suite, code, stop, longer)
    elif at < len(code):
        fit = _fit(pattern[0], code[at], bound)
        if fit is not None:
            yield from _find_ends(pattern[1:], suite, code, at + 1, fit)


def _fit(pattern: object, code: object, bound: Bound) -> Bound | None:
    """`bound` with what makes `pattern` equal to `code`, or None."""
    if isinstance(pattern, tuple) and isinstance(code, tuple):
        return _fit_all(pattern, code, bound)
    if is_node(pattern) and is_node(code):
        return _fit_node(pattern, code, bound)
    return bound if _are_equal(pattern, code) else None


def _fit_node(pattern: cst.CSTNode, code: cst.CSTNode, bound: Bound) -> Bound | None:
    """As `_fit`, for two nodes."""
    hole = _find_hole(pattern, bound)
    if hole is not None and isinstance(code, cst.BaseExpression | cst.Slice):
        return _fit_hole(hole, code, bound)
    common = kind(type(pattern))
    if common != kind(type(code)):
        return None
    if common is cst.BaseSuite:
        assert isinstance(pattern, cst.BaseSuite) and isinstance(code, cst.BaseSuite)
        return _fit_suite(pattern, code, bound)
    if common is cst.Call:
        assert isinstance(pattern, cst.Call) and isinstance(code, cst.Call)
        if any(map(is_ellipsis, pattern.args)):
            return _fit_call(pattern, code, bound)
    return _fit_all(parts(pattern), parts(code), bound)


def _find_hole(pattern: cst.CSTNode, bound: Bound) -> str | None:
    """The hole that `pattern` is, by its name."""
    if not bound.holes or type(pattern) is not cst.Name:
        return None
    return pattern.value if pattern.value in bound.holes else None


def _fit_suite(pattern: cst.BaseSuite, code: cst.BaseSuite, bound: Bound) -> Bound | None:
    """Match all statements of one suite with all of another."""
    every = statements(code)
    for stop, fit in _find_ends(statements(pattern), code, every, 0, bound):
        # The shortest runs come first, and may leave statements over.
        if stop == len(every):
            return fit
    return None


def _fit_hole(name: str, code: cst.CSTNode, bound: Bound) -> Bound | None:
    """Bind a hole, or compare it with what it is bound to."""
    known = bound.holes[name]
    if known is None:
        return replace(bound, holes={**bound.holes, name: code})
    # The same hole stands for the same code everywhere.
    return bound if same(known, code) else None


def _fit_all(
    pattern: Sequence[object], code: Sequence[object], bound: Bound | None
) -> Bound | None:
    """Match part by part; what one part binds holds for the next."""
    if len(pattern) != len(code):
        return None
    for one, other in zip(pattern, code, strict=True):
        if bound is None:
            return None
        bound = _fit(one, other, bound)
    return bound


def _fit_call(pattern: cst.Call, code: cst.Call, bound: Bound) -> Bound | None:
    """Match a call with `...`.

    What stands before and after the `...` must be there, keywords by name; the rest is anything.
    """
    wanted, named = arguments(pattern)
    given, given_by_name = arguments(code)
    place = next(number for number, argument in enumerate(wanted) if is_ellipsis(argument))
    before, behind = wanted[:place], wanted[place + 1 :]
    if len(given) < len(before) + len(behind):
        return None
    first = given[: len(before)]
    last = given[len(given) - len(behind) :]
    fit = _fit_all((pattern.func, *before, *behind), (code.func, *first, *last), bound)
    taken = [*first, *last]
    # Keywords may stand in any order.
    for keyword in named:
        found = _fit_keyword(keyword, given_by_name, fit)
        if found is None:
            return None
        argument, fit = found
        taken.append(argument)
    if fit is None:
        return None
    # By identity: two arguments of one call may be equal code.
    taken_ids = {id(argument) for argument in taken}
    rest = tuple(argument for argument in code.args if id(argument) not in taken_ids)
    return replace(fit, rest=Rest(code, rest))


def _fit_keyword(
    keyword: cst.Arg, given: Sequence[cst.Arg], bound: Bound | None
) -> tuple[cst.Arg, Bound] | None:
    """The first of the `given` arguments that `keyword` fits."""
    if bound is None:
        return None
    for argument in given:
        fit = _fit(keyword, argument, bound)
        if fit is not None:
            return argument, fit
    return None
