"""A method with matched places replaced, as text, checked against the same replacement in its syntax tree.

In: a method, the matches, and the new code with its holes.  Out: the text, or None where text cannot say it (a place
inside an f-string before Python 3.12, a statement that shares its line).  Comments of both sides are kept.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.rewrite.fragment import Fragment, Splice, fragment, same_code, splice
from patchgen.rewrite.pattern import Match
from patchgen.rewrite.statement import Statement
from patchgen.rewrite.suite import indent_of, owns_lines, reindent, suite_text
from patchgen.source.blocks import first_line

_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant, ast.List, ast.Dict, ast.Set, ast.JoinedStr)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands at `match` afterwards: the statements `new` of `code`, which follow line `above` there."""

    match: Match
    new: tuple[ast.stmt, ...]
    code: Fragment
    above: int

    @property
    def deletes(self) -> bool:
        return len(self.new) == 1 and isinstance(self.new[0], ast.Pass)

    def sites(self) -> Iterator[ast.Name]:
        """The holes under `with new:`."""
        for node in itertools.chain.from_iterable(ast.walk(statement) for statement in self.new):
            if isinstance(node, ast.Name) and self.match.holes.get(node.id) is not None:
                yield node


def replaced(target: Statement, changes: Sequence[Replacement]) -> str | None:
    """The text of `target` after all of `changes`, with no more parentheses than it needs."""
    meant = _meant(target.node, changes)
    places = [(number, site) for number, change in enumerate(changes) for site in _places(change)]
    wrapped = frozenset[int]()
    if not _says(_text(target, changes, wrapped), meant):
        wrapped = frozenset(range(len(places)))
        if not _says(_text(target, changes, wrapped), meant):
            return None
        for place in range(len(places)):
            if _says(_text(target, changes, wrapped - {place}), meant):
                wrapped -= {place}
    return _text(target, changes, wrapped)


def _places(change: Replacement) -> list[ast.expr]:
    """The expressions that may need parentheses: what fills the holes, and a replaced expression itself."""
    inner: list[ast.expr] = list(change.sites())
    return [*inner, change.match.node] if change.match.node else inner


def _says(text: str | None, meant: ast.stmt) -> bool:
    try:
        return text is not None and same_code(fragment(text).nodes[0], meant)
    except SyntaxError:
        return False


def _text(target: Statement, changes: Sequence[Replacement], wrapped: frozenset[int]) -> str | None:
    code = target.fragment
    splices: list[Splice] = []
    number = itertools.count()
    for change in changes:
        inner = [_filled(change, site, code, next(number) in wrapped) for site in change.sites()]
        if change.match.node is not None:
            assert isinstance(change.new[0], ast.Expr)
            text = splice(change.code.text, inner, *change.code.span(change.new[0].value))
            splices.append(Splice(*code.span(change.match.node), _wrapped(text, next(number) in wrapped)))
        elif owns_lines(code, change.match.suite, change.match.start, change.match.stop):
            splices.append(_lines(change, code, inner))
        else:
            return None
    return splice(code.text, splices)


def _filled(change: Replacement, site: ast.Name, code: Fragment, wrap: bool) -> Splice:
    value = change.match.holes[site.id]
    assert value is not None
    wrap = wrap and not isinstance(value, _ATOMS)
    return Splice(*change.code.span(site), _wrapped(code.source(value), wrap))


def _wrapped(text: str, wrap: bool) -> str:
    return f"({text})" if wrap else text


def _lines(change: Replacement, code: Fragment, inner: Sequence[Splice]) -> Splice:
    suite, start, stop = change.match.suite, change.match.start, change.match.stop
    first, last = first_line(suite[start]), suite[stop - 1].end_lineno or 0
    indent = indent_of(code.lines[first - 1])
    text, old = suite_text(change.code, change.new, change.above, inner)
    text = reindent(text, old, indent)
    if change.deletes and "#" not in text and stop - start < len(suite):
        text = ""
    return Splice(*code.line_span(first, last), text)


def _meant(method: ast.stmt, changes: Sequence[Replacement]) -> ast.stmt:
    """The tree that the text has to say."""
    statements: dict[int, list[ast.stmt]] = {}
    expressions: dict[int, ast.expr] = {}
    for change in changes:
        new = [_fill(statement, change) for statement in change.new]
        if change.match.node is not None:
            assert isinstance(new[0], ast.Expr)
            expressions[id(change.match.node)] = new[0].value
            continue
        run = change.match.suite[change.match.start : change.match.stop]
        drop = change.deletes and len(run) < len(change.match.suite)
        statements |= {id(node): [] for node in run} | {id(run[0]): [] if drop else new}
    rebuilt = _rebuilt(method, statements, expressions)
    assert isinstance(rebuilt, ast.stmt)
    return rebuilt


def _fill(statement: ast.stmt, change: Replacement) -> ast.stmt:
    holes = {id(site): change.match.holes[site.id] for site in change.sites()}
    filled = _rebuilt(statement, {}, {place: value for place, value in holes.items() if value is not None})
    assert isinstance(filled, ast.stmt)
    return filled


def _rebuilt(node: ast.AST, statements: dict[int, list[ast.stmt]], expressions: dict[int, ast.expr]) -> ast.AST:
    """A copy of `node` with the nodes of these identities replaced."""
    if id(node) in expressions:
        return expressions[id(node)]
    new = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            items: list[object] = []
            for item in value:
                if id(item) in statements:
                    items += statements[id(item)]
                else:
                    items.append(_rebuilt(item, statements, expressions) if isinstance(item, ast.AST) else item)
            setattr(new, name, items)
        elif isinstance(value, ast.AST):
            setattr(new, name, _rebuilt(value, statements, expressions))
    return new
