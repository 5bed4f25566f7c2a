"""The place of a method that is most like a pattern which matches nowhere, and how the two differ."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence

from patchgen.rewrite.classbody import ClassBody
from patchgen.rewrite.dots import is_dots
from patchgen.rewrite.statement import Statement
from patchgen.rewrite.suite import suites

_ENOUGH = 0.4
_MOST_LINES = 16


def nearest_miss(pattern: Sequence[ast.stmt], target: Statement, body: ClassBody) -> str:
    """`nearest: file:line` and a small diff, upstream's code marked `+`; says so when nothing is like it."""
    wanted = _lines(pattern)
    best: tuple[float, Sequence[ast.AST]] = (0.0, ())
    for place in _places(pattern, target.node):
        alike = difflib.SequenceMatcher(None, "\n".join(wanted), "\n".join(_lines(place)), autojunk=False)
        if alike.real_quick_ratio() > best[0] and alike.quick_ratio() > best[0] and alike.ratio() > best[0]:
            best = (alike.ratio(), place)
    if best[0] < _ENOUGH:
        return f"nothing in {target.names[0]} is like it"
    found = _lines(best[1])
    diff = [line for line in difflib.ndiff(wanted, found) if line[0] != "?"]
    diff = [*diff[:_MOST_LINES], "  ..."] if len(diff) > _MOST_LINES else diff
    return "\n".join([f"the nearest is {body.at(target, best[1][0])}", *(f"        {line}" for line in diff)])


def _lines(nodes: Sequence[ast.AST]) -> list[str]:
    return [line for node in nodes for line in ast.unparse(node).split("\n")]


def _places(pattern: Sequence[ast.stmt], method: ast.stmt) -> Iterator[Sequence[ast.AST]]:
    """Runs of as many statements as the pattern has; single expressions for a pattern that is one."""
    match pattern:
        case [ast.Expr(value=expression)] if not is_dots(expression):
            body: list[ast.stmt] = getattr(method, "body", [])
            kind = type(expression)
            yield from ([n] for s in body for n in ast.walk(s) if isinstance(n, kind))
        case _:
            size = sum(not is_dots(node) for node in pattern)
            for suite in suites(method):
                for start in range(max(1, len(suite) - size + 1)):
                    yield suite[start : start + size]
