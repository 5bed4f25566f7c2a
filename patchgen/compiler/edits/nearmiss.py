"""Describe the place of a method that is most similar to a pattern which matches nowhere.

the nearest is modeling_llama.py:12
    - self.act(gates)
    + self.act(gate)
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterator, Sequence

from patchgen.compiler.edits.ellipsis import is_ellipsis
from patchgen.compiler.edits.similarity import measure_similarity, spell
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.merge.text import suites

_ENOUGH = 0.35
_MOST_LINES = 16
Nodes = Sequence[ast.AST]


def describe_nearest_miss(
    pattern: Sequence[ast.stmt], holes: Collection[str], target: Statement, body: ClassBody
) -> str:
    """The file and line of the nearest code and a small diff, with upstream's code marked `+`."""
    match pattern:
        case [ast.Expr(value=expression)] if not is_ellipsis(expression):
            ratio, place = _find_expression(expression, holes, target.node)
        case _:
            ratio, place = _find_statements(pattern, target.node)
    # Below this, the nearest code would only mislead.
    if ratio < _ENOUGH:
        return f"nothing in {target.names[0]} is like it"
    where = f"the nearest is {body.at(target, place[0])}"
    # The text shows an `elif` as an `if`, which explains nothing.
    if _is_elif(place[0], target):
        where += "; an elif matches only together with the branches below it"
    diff = [f"        {line}" for line in _write_diff(pattern, place)]
    return "\n".join([where, *diff])


def _write_diff(pattern: Nodes, place: Nodes) -> list[str]:
    """The lines that differ, marked, among those that do not; cut where it is long."""
    lines = difflib.ndiff(_spell_lines(pattern), _spell_lines(place))
    # The lines with `?` only point at characters.
    diff = [line for line in lines if not line.startswith("?")]
    if len(diff) > _MOST_LINES:
        diff = [*diff[:_MOST_LINES], "  ..."]
    return diff


def _is_elif(node: ast.AST, target: Statement) -> bool:
    """Whether an `if` is written as `elif`: its tree does not tell."""
    return isinstance(node, ast.If) and target.fragment.source(node).startswith("elif")


def _find_expression(
    pattern: ast.expr, holes: Collection[str], method: ast.stmt
) -> tuple[float, Nodes]:
    """The most similar expression of the pattern's kind, the first of several."""
    body: list[ast.stmt] = getattr(method, "body", [])
    nodes: list[ast.AST] = []
    for statement in body:
        nodes += ast.walk(statement)
    best: tuple[float, Nodes] = (0.0, ())
    for node in (each for each in nodes if isinstance(each, type(pattern))):
        ratio = measure_similarity(pattern, node, holes)
        if ratio > best[0]:
            best = (ratio, [node])
    return best


def _find_statements(pattern: Sequence[ast.stmt], method: ast.stmt) -> tuple[float, Nodes]:
    """The most similar run of statements, the first of several."""
    best: tuple[float, Nodes] = (0.0, ())
    wanted = "\n".join(_spell_lines(pattern))
    for place in _find_runs(pattern, method):
        text = "\n".join(_spell_lines(place))
        if text == wanted:
            continue  # what differs cannot be shown
        matcher = difflib.SequenceMatcher(None, wanted, text, autojunk=False)
        # The two quick ratios are upper bounds of the slow one.
        if matcher.real_quick_ratio() <= best[0] or matcher.quick_ratio() <= best[0]:
            continue
        ratio = matcher.ratio()
        if ratio > best[0]:
            best = (ratio, place)
    return best


def _spell_lines(nodes: Nodes) -> list[str]:
    """The lines of code of `nodes`, without comments."""
    return [line for node in nodes for line in spell(node).split("\n")]


def _find_runs(pattern: Sequence[ast.stmt], method: ast.stmt) -> Iterator[Nodes]:
    """Runs of as many statements as the pattern has."""
    size = sum(not is_ellipsis(node) for node in pattern)
    for suite in suites(method):
        # A shorter suite is one run, as a whole.
        count = max(1, len(suite) - size + 1)
        for start in range(count):
            yield suite[start : start + size]
