"""Replace matched places of a method, as text that libcst reads as what was meant.

In: the tree of a method, the matches, and their replacements.  Out: the text, or None where no text
reads as the changed tree (quotes inside an f-string before Python 3.12).  It keeps the comments of
both sides.

    x * gate, with gate -> a + b        x * (a + b)     # parentheses only where they are needed
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen.compiler.edits.ellipsis_arguments import insert_rest
from patchgen.compiler.edits.lines import Lines, join_lines, part, read_lines, replace_statements
from patchgen.compiler.edits.pattern import Match, Run, same
from patchgen.compiler.edits.syntax import expressions, is_ellipsis, statements
from patchgen.compiler.edits.tree import Transformer, Tree, read_function, walk
from patchgen.compiler.merge.text import parse_fragment

Parts = Mapping[int, Callable[[Any], Any]]
"""What becomes of a node, by its identity, once everything inside it has been changed."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands at `match` afterwards: the statements of `new`."""

    match: Match
    new: cst.BaseSuite

    @property
    def deletes(self) -> bool:
        """Whether `new` is `pass`, which leaves nothing of what was matched."""
        body = statements(self.new)
        return len(body) == 1 and isinstance(body[0], cst.Pass)

    @property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that `new` is, if it is nothing else."""
        body = statements(self.new)
        if len(body) != 1 or not isinstance(body[0], cst.Expr):
            return None
        return body[0].value

    def sites(self) -> Iterator[cst.Name]:
        """The holes in `new`."""
        holes = self.match.bound.holes
        for node in expressions(self.new):
            # A hole of which the pattern bound nothing is a name like any other.
            if isinstance(node, cst.Name) and holes.get(node.value) is not None:
                yield node


class _Changed(Transformer):
    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        change = self.parts.get(id(original_node))
        return change(updated_node) if change else updated_node


class _ChangedMethod(_Changed):
    """As `_Changed`, in a whole method: what holds nothing that changes is not even copied."""

    def __init__(self, tree: Tree, parts: Parts) -> None:
        super().__init__(parts)
        self._spans = tree.spans
        self._places = sorted(tree.spans[changed][0] for changed in parts)

    def on_visit(self, node: cst.CSTNode) -> bool:
        # The class around the method has no numbers, nor has white space.
        first, last = self._spans.get(id(node), (0, len(self._spans)))
        # The first changed place at or behind the start of the node: is it inside?
        following = bisect.bisect_left(self._places, first)
        if following == len(self._places):
            return False
        return self._places[following] <= last


def replace_matches(tree: Tree, changes: Sequence[Replacement]) -> str | None:
    """The text of the method after all of `changes`, with no more parentheses than it needs."""
    # Most replacements need no parentheses; the others get all of them, less those that can go.
    text = _write(tree, changes, frozenset())
    if text is not None:
        return text
    sites = sum(1 for change in changes for _ in change.sites())
    number = sites + len(changes)
    wrapped = frozenset(range(number))
    text = _write(tree, changes, wrapped)
    if text is None:
        return None
    # Take each pair of parentheses away again, if the text then means the same.
    for place in range(number):
        fewer = _write(tree, changes, wrapped - {place})
        if fewer is not None:
            text, wrapped = fewer, wrapped - {place}
    return text


def _write(tree: Tree, changes: Sequence[Replacement], wrapped: frozenset[int]) -> str | None:
    """The text with parentheses at the places `wrapped`.

    None where Python or libcst do not read it as the changed tree.
    """
    try:
        meant, text = tree.visited(_ChangedMethod(tree, _find_parts(tree, changes, wrapped)))
        parse_fragment(text)
        # Precedence can change the tree: `x * a + b` is not `x * (a + b)`.
        changed = _keep_changed(meant, tree)
        return text if same(read_function(tree.write(changed)), changed) else None
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError):
        return None


def _keep_changed(meant: cst.FunctionDef, tree: Tree) -> cst.FunctionDef:
    """A function of those statements of `meant` that are not the ones of `tree`.

    Lines of statements read as each of them does, and the others were read from their own text.
    """
    known = set(map(id, tree.function.body.body))
    changed = [line for line in meant.body.body if id(line) not in known]
    # An empty suite cannot be written.
    body = meant.body.with_changes(body=changed) if changed else meant.body
    return cst.FunctionDef(meant.name, cst.Parameters(), body, asynchronous=meant.asynchronous)


def _find_parts(tree: Tree, changes: Sequence[Replacement], wrapped: frozenset[int]) -> Parts:
    """What becomes of each node that changes, from all replacements together."""
    parts: dict[int, Callable[[Any], Any]] = {}
    runs: dict[int, list[tuple[int, int, Lines]]] = {}
    comments: dict[int, list[Lines]] = {}
    number = itertools.count()
    for change in changes:
        # Sites and changes are counted in the order in which `wrapped` numbers them.
        sites = [(site, next(number) in wrapped) for site in change.sites()]
        filled = _fill(change, sites)
        block = change.new.visit(_Changed(filled)) if filled else change.new
        assert isinstance(block, cst.BaseSuite)
        wrap = next(number) in wrapped
        place = change.match.place
        if not isinstance(place, Run):
            (statement,) = statements(block)
            assert isinstance(statement, cst.Expr)
            parts[id(place)] = _in_place(enclose(statement.value, wrap))
            # An expression has no line of its own for the comments of new code.
            above = _drop_statement(block)
            if above.below:
                comments.setdefault(id(_find_line(tree, place)), []).append(above)
            continue
        lines = _drop_statement(block) if change.deletes else read_lines(block)
        if id(place.suite) in tree.spans:
            runs.setdefault(id(place.suite), []).append((place.start, place.stop, lines))
        else:
            # The suite of an `elif` is no node of the tree.
            parts[id(place.nodes[0])] = _branch(lines)
    for suite, replaced in runs.items():
        parts[suite] = _with_runs(replaced)
    for line, found in comments.items():
        parts[line] = _add_comments(found)
    return parts


def _with_runs(replaced: list[tuple[int, int, Lines]]) -> Callable[[cst.BaseSuite], cst.BaseSuite]:
    """A change of a suite: the statements of each run become lines."""
    return lambda suite: replace_statements(suite, replaced)


def _branch(lines: Lines) -> Callable[[cst.If], cst.If | cst.Else | cst.RemovalSentinel]:
    """Write `lines` in the place of an `elif`: as an `elif` if possible, else under `else:`."""

    def changed(old: cst.If) -> cst.If | cst.Else | cst.RemovalSentinel:
        block = replace_statements(cst.IndentedBlock([old]), [(0, 1, lines)])
        match block.body:
            # A single `if` can be an `elif` again.
            case [cst.If() as only] if not block.footer:
                return only
            # Nothing is left of the branch.
            case [cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=[])]:
                return cst.RemoveFromParent()
            case _:
                return cst.Else(block)

    return changed


def _add_comments(above: list[Lines]) -> Callable[[Any], Any]:
    """Put `above` over the statement, below what stands there already."""
    lines = join_lines(above).below
    return lambda line: line.with_changes(leading_lines=(*line.leading_lines, *lines))


def _in_place(new: cst.BaseExpression) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """`new` in the parentheses of what it replaces."""
    return lambda old: new.with_changes(lpar=(*old.lpar, *new.lpar), rpar=(*new.rpar, *old.rpar))


def _find_line(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement around `node` that comments can stand above."""
    # Spans number the nodes, so that a statement holds what lies between its numbers.
    start, stop = tree.span([node])
    found: cst.CSTNode = tree.function
    for line in tree.nodes:
        if not isinstance(line, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            continue
        first, last = tree.span([line])
        if first <= start and stop <= last:
            found = line
    return found


def _drop_statement(block: cst.BaseSuite) -> Lines:
    """The comments of `block`, which holds one statement, without that."""
    lines = read_lines(block)
    every = (*lines.body[0].leading_lines, *lines.below)
    # Blank lines alone are not worth a place.
    has_comment = any(line.comment for line in every)
    return Lines(below=every) if has_comment else Lines()


def _fill(change: Replacement, sites: Iterable[tuple[cst.Name, bool]]) -> Parts:
    """The holes and the `...` of `new` with what they stand for.

    With each of the holes comes whether it gets parentheses.
    """
    bound = change.match.bound
    filled: dict[int, Callable[[Any], Any]] = {}
    for site, wrap in sites:
        value = bound.holes[site.value]
        if isinstance(value, cst.BaseExpression):
            value = enclose(value, wrap)
        filled[id(site)] = _put(value)
    # The arguments, or the statements, that a `...` of the pattern matched.
    if bound.rest:
        for call in _find_calls_with_ellipsis(change.new):
            filled[id(call)] = _put_rest(bound.rest.call, bound.rest.arguments)
    if bound.run:
        for suite in (node for node in walk(change.new) if isinstance(node, cst.BaseSuite)):
            places = _find_runs(suite, bound.run)
            if places:
                filled[id(suite)] = _with_runs(places)
    return filled


def _find_calls_with_ellipsis(new: cst.BaseSuite) -> Iterator[cst.Call]:
    """The calls in `new` that have `...` among their arguments."""
    for node in walk(new):
        if isinstance(node, cst.Call) and any(map(is_ellipsis, node.args)):
            yield node


def _find_runs(suite: cst.BaseSuite, run: Run) -> list[tuple[int, int, Lines]]:
    """The places of `suite` where `...` stands for the statements of `run`."""
    lines = Lines(part(run.suite, run.start, run.stop))
    found: list[tuple[int, int, Lines]] = []
    for at, statement in enumerate(statements(suite)):
        if is_ellipsis(statement):
            found.append((at, at + 1, lines))
    return found


def _put(value: cst.CSTNode | None) -> Callable[[cst.CSTNode], cst.CSTNode | None]:
    """A change of any node into `value`."""
    return lambda _: value


def _put_rest(old: cst.Call, rest: tuple[cst.Arg, ...]) -> Callable[[cst.Call], cst.Call]:
    """A change of a call: `rest` takes the place of its `...`."""
    return lambda call: insert_rest(call, old, rest)


def enclose(node: cst.BaseExpression, wrap: bool) -> cst.BaseExpression:
    """`node` in parentheses, its own if it has some; or without, unless they hold a comment."""
    has_own = bool(node.lpar)
    if wrap and has_own:
        return node
    if wrap:
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    if not has_own or _holds_comment(node):
        return node
    try:
        return node.with_changes(lpar=(), rpar=())
    except cst.CSTValidationError:  # an empty tuple
        return node


def _holds_comment(node: cst.BaseExpression) -> bool:
    """Whether a comment stands inside the parentheses around `node`."""
    inside = [left.whitespace_after for left in node.lpar]
    inside += [right.whitespace_before for right in node.rpar]
    return any("#" in cst.Module(()).code_for_node(space) for space in inside)
