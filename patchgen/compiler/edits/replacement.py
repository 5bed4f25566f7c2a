"""A method with matched places replaced, as text that libcst reads as what was meant.

In: the tree of a method, the matches, and what stands there afterwards.  Out: the text, or None where no text says it
(quotes inside an f-string before Python 3.12).  Comments of both sides are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.edits.ellipsis_arguments import insert_rest
from patchgen.compiler.edits.lines import Lines, join_lines, part, read_lines, replace_statements
from patchgen.compiler.edits.pattern import Match, Run, same
from patchgen.compiler.edits.syntax import expressions, is_ellipsis, statements
from patchgen.compiler.edits.tree import Tree, read_function, walk

Parts = Mapping[int, Callable[[Any], Any]]
"""What becomes of a node, by its identity, once everything inside it has been changed."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands at `match` afterwards: the statements of `new`."""

    match: Match
    new: cst.BaseSuite

    @property
    def deletes(self) -> bool:
        body = statements(self.new)
        return len(body) == 1 and isinstance(body[0], cst.Pass)

    @property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that `new` is, if it is nothing else."""
        body = statements(self.new)
        return body[0].value if len(body) == 1 and isinstance(body[0], cst.Expr) else None

    def sites(self) -> Iterator[cst.Name]:
        """The holes in `new`."""
        for node in expressions(self.new):
            if isinstance(node, cst.Name) and self.match.bound.holes.get(node.value) is not None:
                yield node


class _Changed(cst.CSTTransformer):
    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        change = self.parts.get(id(original_node))
        return change(updated_node) if change else updated_node


def replace_matches(tree: Tree, changes: Sequence[Replacement]) -> str | None:
    """The text of the method after all of `changes`, with no more parentheses than it needs."""
    number = sum(1 for change in changes for _ in change.sites()) + len(changes)
    wrapped = frozenset[int]()
    text = _text(tree, changes, wrapped)
    if text is not None:
        return text
    wrapped = frozenset(range(number))
    text = _text(tree, changes, wrapped)
    for place in range(number if text is not None else 0):
        fewer = _text(tree, changes, wrapped - {place})
        if fewer is not None:
            text, wrapped = fewer, wrapped - {place}
    return text


def _text(tree: Tree, changes: Sequence[Replacement], wrapped: frozenset[int]) -> str | None:
    """The text with parentheses at the places `wrapped`, where Python and libcst read it as the changed tree."""
    try:
        meant, text = tree.visited(_Changed(_parts(tree, changes, wrapped)))
        parse_fragment(text)
        return text if same(read_function(text), meant) else None
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError):
        return None


def _parts(tree: Tree, changes: Sequence[Replacement], wrapped: frozenset[int]) -> Parts:
    parts: dict[int, Callable[[Any], Any]] = {}
    runs: dict[int, list[tuple[int, int, Lines]]] = {}
    comments: dict[int, list[Lines]] = {}
    number = itertools.count()
    for change in changes:
        wraps = {id(site): next(number) in wrapped for site in change.sites()}
        block = change.new.visit(_Changed(_filled(change, wraps)))
        assert isinstance(block, cst.BaseSuite)
        wrap = next(number) in wrapped
        place = change.match.place
        if isinstance(place, Run):
            lines = _without_pass(block) if change.deletes else read_lines(block)
            if id(place.suite) in tree.spans:
                runs.setdefault(id(place.suite), []).append((place.start, place.stop, lines))
            else:
                parts[id(place.nodes[0])] = _branch(lines)
        else:
            (statement,) = statements(block)
            assert isinstance(statement, cst.Expr)
            parts[id(place)] = _in_place(enclose(statement.value, wrap))
            comments.setdefault(id(_line_of(tree, place)), []).append(_without_pass(block))
    parts |= {suite: _with_runs(replaced) for suite, replaced in runs.items()}
    return parts | {line: _commented(above) for line, above in comments.items()}


def _with_runs(replaced: list[tuple[int, int, Lines]]) -> Callable[[cst.BaseSuite], cst.BaseSuite]:
    return lambda suite: replace_statements(suite, replaced)


def _branch(lines: Lines) -> Callable[[cst.If], cst.If | cst.Else | cst.RemovalSentinel]:
    """`lines` in the place of an `elif`: as one where they can be, else under `else:`."""

    def changed(old: cst.If) -> cst.If | cst.Else | cst.RemovalSentinel:
        block = replace_statements(cst.IndentedBlock([old]), [(0, 1, lines)])
        match block.body:
            case [cst.If() as only] if not block.footer:
                return only
            case [cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=[])]:
                return cst.RemoveFromParent()
            case _:
                return cst.Else(block)

    return changed


def _commented(above: list[Lines]) -> Callable[[Any], Any]:
    """The statement with `above` over it, below what stands there already."""
    lines = join_lines(above).below
    return (
        lambda line: line.with_changes(leading_lines=(*line.leading_lines, *lines))
        if lines
        else line
    )


def _in_place(new: cst.BaseExpression) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """`new` in the parentheses of what it replaces."""
    return lambda old: new.with_changes(lpar=(*old.lpar, *new.lpar), rpar=(*new.rpar, *old.rpar))


def _line_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement around `node` that comments can stand above."""
    start, stop = tree.span([node])
    around = [
        line
        for line in walk(tree.function)
        if isinstance(line, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        and tree.span([line])[0] <= start <= stop <= tree.span([line])[1]
    ]
    return around[-1]


def _without_pass(block: cst.BaseSuite) -> Lines:
    """The comments of `block`, which holds one statement, without that."""
    lines = read_lines(block)
    every = (*lines.body[0].leading_lines, *lines.below)
    return Lines(below=every if any(line.comment for line in every) else ())


def _filled(change: Replacement, wraps: Mapping[int, bool]) -> Parts:
    """The holes and the `...` of `new` with what they stand for."""
    bound = change.match.bound
    filled: dict[int, Callable[[Any], Any]] = {}
    for site in change.sites():
        value = bound.holes[site.value]
        filled[id(site)] = _put(
            enclose(value, wraps[id(site)]) if isinstance(value, cst.BaseExpression) else value
        )
    for node in walk(change.new):
        if isinstance(node, cst.Call) and bound.rest and any(map(is_ellipsis, node.args)):
            filled[id(node)] = _put_rest(bound.rest.call, bound.rest.arguments)
        elif isinstance(node, cst.BaseSuite) and bound.run:
            run = Lines(part(bound.run.suite, bound.run.start, bound.run.stop))
            places = [
                (at, at + 1, run)
                for at, statement in enumerate(statements(node))
                if is_ellipsis(statement)
            ]
            if places:
                filled[id(node)] = _with_runs(places)
    return filled


def _put(value: cst.CSTNode | None) -> Callable[[cst.CSTNode], cst.CSTNode | None]:
    return lambda _: value


def _put_rest(old: cst.Call, rest: tuple[cst.Arg, ...]) -> Callable[[cst.Call], cst.Call]:
    return lambda call: insert_rest(call, old, rest)


def enclose(node: cst.BaseExpression, wrap: bool) -> cst.BaseExpression:
    """`node` in parentheses, its own where it has some; or without any, unless there is a comment in them."""
    if wrap:
        new = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return node if node.lpar else new
    inside = [p.whitespace_after for p in node.lpar] + [p.whitespace_before for p in node.rpar]
    if not node.lpar or any("#" in cst.Module(()).code_for_node(space) for space in inside):
        return node
    try:
        return node.with_changes(lpar=(), rpar=())
    except cst.CSTValidationError:  # an empty tuple
        return node
