"""Measure how much of the pattern of an edit an expression has.

In: two expressions of one kind, and the names of the pattern that stand for anything.  Out: a
number from 0 to 1.  It only chooses what an error shows; `pattern` decides whether a pattern
matches.

    self.act(gate) and self.act(gates)      about 0.9
    self.act(gate) and torch.cat([a, b])    about 0.3
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence

from patchgen.compiler.edits.ellipsis import is_ellipsis


def measure_similarity(pattern: ast.expr, found: ast.expr, holes: Collection[str]) -> float:
    """The mean similarity of the texts, the shapes and the names of both."""
    # `autojunk` would ignore frequent characters of long texts.
    text = difflib.SequenceMatcher(None, spell(pattern), spell(found), autojunk=False).ratio()
    if isinstance(pattern, ast.Name | ast.Constant):
        return text  # another one has neither its shape nor its name
    measures = [text, _shape(pattern, found, holes)]
    # A hole stands for any name, and tells nothing.
    names = _names(pattern) - set(holes)
    if names:
        measures.append(len(names & _names(found)) / len(names))
    return _mean(measures)


def spell(node: ast.AST) -> str:
    """The code of `node` in one spelling.

    Its tree where Python cannot spell it: some f-strings, before 3.12.
    """
    try:
        return ast.unparse(node)
    except ValueError:
        return ast.dump(node)


def _shape(pattern: ast.AST, found: ast.AST | None, holes: Collection[str]) -> float:
    """The share of the parts of `pattern` that stand at the same place in `found`."""
    match pattern, found:
        case ast.Name(id=name), _ if name in holes:
            return float(found is not None)
        case ast.Call(), ast.Call():
            pairs = [(pattern.func, found.func), *_arguments(pattern, found)]
            return _mean([_shape(part, other, holes) for part, other in pairs])
        case _ if type(pattern) is not type(found):
            return 0.0
        case _:
            assert found is not None
            return _mean([*_equal_leaves(pattern, found), *_parts(pattern, found, holes)])


def _parts(pattern: ast.AST, found: ast.AST, holes: Collection[str]) -> Iterator[float]:
    """How similar each part of `pattern` is to the one at its place."""
    parts, others = ast.iter_child_nodes(pattern), ast.iter_child_nodes(found)
    for part, other in _pair(parts, others):
        # Whether a name is read or bound follows from its place.
        if not isinstance(part, ast.expr_context):
            yield _shape(part, other, holes)


def _pair(
    parts: Iterable[ast.AST], others: Iterable[ast.AST]
) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Each of `parts` with the one of `others` at its place; None where there is none."""
    rest = iter(others)
    for part in parts:
        yield part, next(rest, None)


def _equal_leaves(pattern: ast.AST, found: ast.AST) -> Iterator[float]:
    """Names and constants of the two nodes themselves; a node without any counts for its kind."""
    values = [(value, getattr(found, key)) for key, value in ast.iter_fields(pattern)]
    leaves: list[float] = []
    for one, other in values:
        if isinstance(one, str | int | float | bytes):
            leaves.append(float(one == other))
    yield from leaves or [1.0]


def _arguments(pattern: ast.Call, found: ast.Call) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """The arguments that the pattern spells out, each with the one that is passed in its place."""
    for argument, passed in _pair(pattern.args, found.args):
        # `...` stands for any number of them.
        if not is_ellipsis(argument):
            yield argument, passed
    by_name = {keyword.arg: keyword.value for keyword in found.keywords}
    for keyword in pattern.keywords:
        yield keyword.value, by_name.get(keyword.arg)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _names(node: ast.AST) -> set[str]:
    """The identifiers in `node`; `self` says nothing."""
    found: set[str] = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
    return found - {"self"}
