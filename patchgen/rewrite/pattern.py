"""Where a piece of code, with holes in it, occurs in a method.

Patterns and methods are compared as syntax trees: white space, comments, quotes, parentheses and trailing commas do
not exist there.  A hole matches one expression, everywhere the same; `...` matches the remaining arguments of a call,
or a run of statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.rewrite.fragment import same_code
from patchgen.rewrite.suite import suites

Holes = Mapping[str, ast.expr | None]
"""What each hole stands for; None where nothing has been matched yet."""


@dataclass(frozen=True, slots=True)
class Match:
    """A place that a pattern fits: `suite[start:stop]`, or the expression `node`."""

    holes: Holes
    suite: tuple[ast.stmt, ...] = ()
    start: int = 0
    stop: int = 0
    node: ast.expr | None = None

    @property
    def nodes(self) -> tuple[ast.expr | ast.stmt, ...]:
        """What was matched."""
        return (self.node,) if self.node else self.suite[self.start : self.stop]


def find_statements(pattern: Sequence[ast.stmt], method: ast.AST, holes: Sequence[str]) -> Iterator[Match]:
    """Every run of statements of one suite of `method` that `pattern` fits, in order."""
    for suite in suites(method):
        for start in range(len(suite)):
            for stop, bound in _runs(pattern, suite, start, dict.fromkeys(holes)):
                yield Match(bound, tuple(suite), start, stop)
                break


def find_expressions(pattern: ast.expr, body: Sequence[ast.stmt], holes: Sequence[str]) -> Iterator[Match]:
    """Every expression in `body` that `pattern` fits, in the order of the text."""
    found = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr):
                bound = _fit(pattern, node, dict.fromkeys(holes))
                if bound is not None:
                    found.append(Match(bound, node=node))
    yield from sorted(found, key=lambda match: _position(match.node))


def is_dots(node: ast.AST) -> bool:
    """Whether `node` is `...`, as an expression or as a statement."""
    node = node.value if isinstance(node, ast.Expr) else node
    return isinstance(node, ast.Constant) and node.value is ...


def _position(node: ast.expr | None) -> tuple[int, int, int]:
    assert node is not None
    return node.lineno, node.col_offset, -(node.end_col_offset or 0)


def _runs(
    pattern: Sequence[ast.stmt], suite: Sequence[ast.stmt], at: int, holes: Holes
) -> Iterator[tuple[int, Holes]]:
    """Where a run that begins at `at` may end, shortest first."""
    if not pattern:
        yield at, holes
    elif is_dots(pattern[0]):
        for stop in range(at, len(suite) + 1):
            yield from _runs(pattern[1:], suite, stop, holes)
    elif at < len(suite):
        bound = _fit(pattern[0], suite[at], holes)
        if bound is not None:
            yield from _runs(pattern[1:], suite, at + 1, bound)


def _fit(pattern: object, code: object, holes: Holes) -> Holes | None:
    """`holes` with what makes `pattern` equal to `code`, or None."""
    if isinstance(pattern, ast.Name) and pattern.id in holes and isinstance(code, ast.expr):
        known = holes[pattern.id]
        if known is None:
            return {**holes, pattern.id: code}
        return holes if same_code(known, code) else None
    if isinstance(pattern, ast.AST) and isinstance(code, ast.AST):
        return _fit_node(pattern, code, holes)
    if isinstance(pattern, list) and isinstance(code, list):
        return _fit_list(pattern, code, holes)
    return holes if type(pattern) is type(code) and pattern == code else None


def _fit_node(pattern: ast.AST, code: ast.AST, holes: Holes) -> Holes | None:
    if type(pattern) is not type(code):
        return None
    if isinstance(pattern, ast.Call) and isinstance(code, ast.Call) and any(is_dots(arg) for arg in pattern.args):
        return _fit_call(pattern, code, holes)
    bound: Holes | None = holes
    for field in pattern._fields:
        if field in ("ctx", "kind", "type_comment") or bound is None:
            continue
        bound = _fit(getattr(pattern, field, None), getattr(code, field, None), bound)
    return bound


def _fit_list(pattern: list[ast.AST], code: list[ast.AST], holes: Holes) -> Holes | None:
    if pattern and isinstance(pattern[0], ast.stmt) and any(is_dots(node) for node in pattern):
        statements = [node for node in code if isinstance(node, ast.stmt)]
        wanted = [node for node in pattern if isinstance(node, ast.stmt)]
        return next((bound for stop, bound in _runs(wanted, statements, 0, holes) if stop == len(code)), None)
    if len(pattern) != len(code):
        return None
    bound: Holes | None = holes
    for one, other in zip(pattern, code, strict=True):
        bound = _fit(one, other, bound) if bound is not None else None
    return bound


def _fit_call(pattern: ast.Call, code: ast.Call, holes: Holes) -> Holes | None:
    """A call with `...`: what stands before and after it must be there, keywords by name; the rest is anything."""
    place = next(number for number, arg in enumerate(pattern.args) if is_dots(arg))
    before, behind = pattern.args[:place], pattern.args[place + 1 :]
    if len(code.args) < len(before) + len(behind):
        return None
    tail = code.args[len(code.args) - len(behind) :]
    bound = _fit(pattern.func, code.func, holes)
    for one, other in [*zip(before, code.args, strict=False), *zip(behind, tail, strict=True)]:
        bound = _fit(one, other, bound) if bound is not None else None
    for keyword in pattern.keywords:
        given = [k for k in code.keywords if k.arg == keyword.arg]
        fits = [_fit(keyword.value, k.value, bound) for k in given] if bound is not None else []
        bound = next((fit for fit in fits if fit is not None), None)
    return bound
