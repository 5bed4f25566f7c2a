"""Replace matched places of a method in the tree of libcst, so that its layout stays.

In: a method, and what stands at the matches afterwards.  Out: the text and its tree, or None where
no text reads as the tree that is meant (quotes inside an f-string before Python 3.12).  Comments
and line breaks stay where the edits do not touch them, and those of new code come along.

    x * gate, with gate -> a + b        x * (a + b)     # parentheses only where they are needed
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from patchgen.compiler.edits.meant import Replaced, Replacement, build_meant, order_arguments
from patchgen.compiler.edits.pattern import Rest, Run, arguments, is_ellipsis, suites
from patchgen.compiler.edits.signature import Changes, is_by_name
from patchgen.compiler.edits.tree import Line, Tree, own_parentheses, read_tree
from patchgen.compiler.merge.text import Fragment, parse_fragment
from patchgen.syntax.errors import Location
from patchgen.syntax.same import Function, is_same_code
from patchgen.syntax.trees import walk

_MOST_TRIED = 24  # places whose parentheses are taken away one by one
_NOTHING = cst.SimpleWhitespace("")
# What follows a parameter.
_PLAIN = {"comma": cst.MaybeSentinel.DEFAULT, "whitespace_after_param": _NOTHING}
_Parts = dict[cst.CSTNode, list[Callable[[Any], Any]]]
"""What becomes of a node, once everything inside it has been changed."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Statements with the comments above them, and the comments and blank lines below the last."""

    body: tuple[Line, ...]
    below: tuple[cst.EmptyLine, ...] = ()


@dataclass(frozen=True, slots=True)
class NewRun:
    """`lines` in the place of the statements `start` to `stop`, or beside them as `word` says."""

    start: int
    stop: int
    lines: Lines
    word: str = "new"


def replace_matches(
    method: Fragment, changes: Sequence[Replacement], signature: Changes, at: Location
) -> Replaced | None:
    """The method after all of `changes`, with no more parentheses than it needs.

    Raises PatchgenError PG308 at `at` where libcst cannot read it.
    """
    writer = _Writer(method, changes, signature, at)
    meant, copies = build_meant(method, changes, signature)
    # Most replacements need no parentheses; the others get all of them, less those that can go.
    sites = [(id(change), id(site)) for change in changes for site in [change, *change.sites()]]
    wrapped: set[tuple[int, int]] = set()
    text = writer.write(wrapped, meant)
    if text is None:
        wrapped = set(sites)
        text = writer.write(wrapped, meant)
        for site in sites[:_MOST_TRIED] if text is not None else ():
            fewer = writer.write(wrapped - {site}, meant)
            if fewer is not None:
                text, wrapped = fewer, wrapped - {site}
    if text is None:
        return None
    (tree,) = parse_fragment(text).nodes
    assert isinstance(tree, Function)
    origins: dict[int, ast.AST] = {}
    # Of equal trees, the walks meet the same nodes.
    for node, source in zip(walk(tree), walk(meant), strict=True):
        while id(source) in copies:
            source = copies[id(source)]
        origins[id(node)] = source
    return Replaced(text, tree, origins)


class _Transformer(cst.CSTTransformer):
    """Changes the nodes that `parts` has.

    libcst would look for a method of every kind of node and of each of its fields, which takes as
    long as the visit itself.
    """

    def __init__(self, parts: _Parts) -> None:
        super().__init__()
        self._parts = parts

    def on_visit(self, node: cst.CSTNode) -> bool:
        """As in libcst."""
        return True

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """The node after all that is to become of it."""
        for change in self._parts.get(original_node, ()):
            updated_node = change(updated_node)
        return updated_node


@dataclass(frozen=True)
class _Writer:
    """Writes the method after its changes, with parentheses around some of the places."""

    method: Fragment
    changes: Sequence[Replacement]
    signature: Changes
    at: Location

    def write(self, wrapped: set[tuple[int, int]], meant: ast.AST) -> str | None:
        """The text, unless Python reads it as something else: `x * a + b` is not `x * (a + b)`."""
        tree = self._read(self.method)
        try:
            text = tree.changed(_Transformer(self._list_parts(tree, wrapped)))
            return text if is_same_code(parse_fragment(text).nodes, (meant,)) else None
        # libcst has no node for some of what `ast` has, or sees that `not` needs a space.
        except (SyntaxError, KeyError, cst.CSTValidationError):
            return None

    def _read(self, code: Fragment) -> Tree:
        return read_tree(code.text, self.at)

    def _list_parts(self, tree: Tree, wrapped: set[tuple[int, int]]) -> _Parts:
        """What becomes of the nodes of the method."""
        parts: _Parts = defaultdict(list)
        runs: dict[cst.CSTNode, list[NewRun]] = defaultdict(list)
        comments: dict[cst.CSTNode, list[cst.EmptyLine]] = defaultdict(list)
        for change in self.changes:
            place, lines = change.match.place, self._write_new(change, tree, wrapped)
            if isinstance(place, Run):
                runs[tree.suite(place.suite)].append(
                    NewRun(place.start, place.stop, lines, change.word)
                )
                continue
            match lines.body[0]:
                case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
                    is_wrapped = (id(change), id(change)) in wrapped
                    parts[tree.expression(place)].append(_put(value, is_wrapped))
            # An expression has no line of its own for the comments of new code.
            for line in _list_comments(lines):
                above = comments[tree.statement_around(place)]
                if not any(line.deep_equals(other) for other in above):
                    above.append(line)
        for suite, of_suite in runs.items():
            parts[suite].append(_replace_runs(of_suite))
        for statement, above in comments.items():
            parts[statement].append(_put_above(above))
        if self.signature:
            parts[tree.function.params].append(self._change_parameters)
        return parts

    def _write_new(self, change: Replacement, tree: Tree, wrapped: set[tuple[int, int]]) -> Lines:
        """New code, in which the holes and the `...` are what they stand for."""
        code, bound = self._read(change.code), change.match.bound
        parts: _Parts = defaultdict(list)
        for site in change.sites():
            value = bound.holes[site.id]
            assert value is not None
            is_wrapped = (id(change), id(site)) in wrapped
            parts[code.expression(site)].append(_put(tree.expression(value), is_wrapped))
        for node in walk(change.part):
            if isinstance(node, ast.Call) and bound.rest and any(map(is_ellipsis, node.args)):
                old = tree.call(bound.rest.call)
                parts[code.call(node)].append(_insert_rest(node, old, bound.rest))
        for suite in suites(change.part) if bound.run else ():
            assert bound.run is not None
            dots = [number for number, node in enumerate(suite) if is_ellipsis(node)]
            if dots:
                lines = Lines(())
                if bound.run.nodes:
                    every = _read_lines(tree.suite(bound.run.suite)).body
                    lines = Lines(every[bound.run.start : bound.run.stop])
                runs = [NewRun(number, number + 1, lines) for number in dots]
                parts[code.suite(suite)].append(_replace_runs(runs))
        block = code.suite(change.part.body)
        assert not isinstance(block, cst.If)
        lines = _read_new_lines(block.visit(_Transformer(parts)))
        return Lines((), tuple(_list_comments(lines))) if change.deletes else lines

    def _change_parameters(self, old: cst.Parameters) -> cst.Parameters:
        """The parameters after the changes of the signature."""
        changes = self.signature
        (function,) = self.method.nodes
        assert isinstance(function, Function)
        new: dict[str, cst.Param] = {}
        for parameter in (*changes.added, *changes.changed.values()):
            params = self._read(parameter.code).function.params
            every = (*params.posonly_params, *params.params, *params.kwonly_params)
            new |= {p.name.value: p for p in every if p.name.value == parameter.name}
        by_place: list[cst.Param] = []
        by_name: list[cst.Param] = []
        for added in changes.added:
            kind = by_name if is_by_name(added, function.args) else by_place
            kind.append(new[added.name].with_changes(**_PLAIN))
        posonly = _change_kind(old.posonly_params, (), new, changes)
        named = _change_kind(old.kwonly_params, by_name, new, changes)
        is_bare_star = isinstance(old.star_arg, cst.ParamStar)
        return old.with_changes(
            posonly_params=posonly,
            posonly_ind=old.posonly_ind if posonly else cst.MaybeSentinel.DEFAULT,
            params=_change_kind(old.params, by_place, new, changes),
            star_arg=cst.MaybeSentinel.DEFAULT if is_bare_star and not named else old.star_arg,
            kwonly_params=named,
        )


# Expressions


def _put(new: cst.BaseExpression, wrap: bool) -> Callable[[Any], Any]:
    """Put `new` within the parentheses that are around what stood there."""

    def put(old: cst.BaseExpression) -> cst.BaseExpression:
        # It can stand in brackets alone, and is written there in the place of an index.
        if isinstance(new, cst.Slice):
            return new
        around, own = len(old.lpar) - own_parentheses(old), own_parentheses(new)
        left = [*old.lpar[:around], *new.lpar[len(new.lpar) - own :]]
        right = [*new.rpar[:own], *old.rpar[len(old.rpar) - around :]]
        if wrap:
            left.insert(around, cst.LeftParen())
            right.insert(own, cst.RightParen())
        return new.with_changes(lpar=left, rpar=right)

    return put


def _insert_rest(node: ast.Call, old: cst.Call, rest: Rest) -> Callable[[Any], Any]:
    """Put `rest`, arguments of `old`, into the call `node` in the place of its `...`.

    old:  f(a, *more, scale=2)      where the pattern spells out `a`
    call: g(x, ..., bias=b)
    gives g(x, *more, scale=2, bias=b)
    """

    def insert(call: cst.Call) -> cst.Call:
        written = dict(zip(map(id, arguments(node)), call.args, strict=True))
        matched = dict(zip(map(id, arguments(rest.call)), old.args, strict=True))
        every = [(written | matched)[id(argument)] for argument in order_arguments(node, rest)]
        if not every:
            return call.with_changes(args=())
        *others, final = every
        last = old.args[-1:]
        # What stands behind an argument from the middle of a call may not stand at its end.
        if final is not call.args[-1] and final not in last:
            number = next(n for n, own in enumerate(arguments(node)) if is_ellipsis(own))
            comma = call.args[number].comma
            final = final.with_changes(comma=comma, whitespace_after_arg=_NOTHING)
        for number, argument in enumerate(others):
            space = argument.whitespace_after_arg
            if argument in last and isinstance(space, cst.SimpleWhitespace):
                others[number] = argument.with_changes(whitespace_after_arg=_NOTHING)
        return call.with_changes(args=[*others, final])

    return insert


# Statements


def _read_lines(suite: cst.BaseSuite | cst.If) -> Lines:
    """The lines of `suite`, each with one statement; of an `if` above an `elif`, the latter."""
    if isinstance(suite, cst.If):
        assert isinstance(suite.orelse, cst.If)
        return Lines((suite.orelse,))
    lines: list[Line] = []
    for line in _read_new_lines(suite).body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) == 1:
            lines.append(line)
            continue
        alone = [part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for part in line.body]
        pieces = [cst.SimpleStatementLine([part]) for part in alone]
        # What stands above the line is about its first statement, what stands behind it, the last.
        pieces[0] = pieces[0].with_changes(leading_lines=line.leading_lines)
        behind = line.trailing_whitespace
        pieces[-1] = pieces[-1].with_changes(trailing_whitespace=behind)
        lines += pieces
    return Lines(tuple(lines), tuple(suite.footer) if isinstance(suite, cst.IndentedBlock) else ())


def _read_new_lines(suite: Any) -> Lines:
    """The lines of `suite` as they stand there."""
    if isinstance(suite, cst.IndentedBlock):
        body = [line for line in suite.body if isinstance(line, Line)]
        below = list(suite.footer)
        # Blank lines below the last comment are not part of it.
        while below and not below[-1].comment:
            below.pop()
        return Lines(tuple(body), tuple(below))
    assert isinstance(suite, cst.SimpleStatementSuite)
    behind = suite.trailing_whitespace
    return Lines((cst.SimpleStatementLine(suite.body, trailing_whitespace=behind),))


def _replace_runs(runs: Iterable[NewRun]) -> Callable[[Any], Any]:
    """Replace statements of a suite; a suite that would be empty is `pass`."""

    def replace_in(suite: Any) -> Any:
        lines = _replace_lines(_read_lines(suite), runs)
        if isinstance(suite, cst.If):
            return _replace_branch(suite, lines)
        if not lines.body:
            lines = Lines((cst.SimpleStatementLine([cst.Pass()], leading_lines=lines.below),))
        # `if x: a()` gets lines of its own.
        block = suite if isinstance(suite, cst.IndentedBlock) else cst.IndentedBlock(())
        return block.with_changes(body=lines.body, footer=lines.below)

    return replace_in


def _replace_branch(owner: cst.If, lines: Lines) -> cst.If:
    """Write `lines` in the place of the `elif` below `owner`: an `if` alone is an `elif` again."""
    match lines:
        case Lines(body=[cst.If() as only], below=()):
            return owner.with_changes(orelse=only)
        case Lines(body=()):
            body = owner.body
            if isinstance(body, cst.IndentedBlock):
                body = body.with_changes(footer=[*body.footer, *lines.below])
            return owner.with_changes(orelse=None, body=body)
    block = cst.IndentedBlock(lines.body, footer=lines.below)
    return owner.with_changes(orelse=cst.Else(block))


def _replace_lines(old: Lines, runs: Iterable[NewRun]) -> Lines:
    """`old` with `runs` in it; comments above replaced statements are about the place, and stay."""
    body = list(old.body)
    done: list[Line] = []
    above: list[cst.EmptyLine] = []

    def add(lines: Sequence[Line], below: Sequence[cst.EmptyLine] = ()) -> None:
        for line in lines:
            done.append(_put_above(above, first=True)(line))
            above.clear()
        above.extend(below)

    at = 0
    # What is put behind a statement comes before what is put above the next.
    spans = [(r.stop if r.word == "after" else r.start, r.word != "after", r) for r in runs]
    for start, _, run in sorted(spans, key=lambda span: span[:2]):
        add(body[at:start])
        at = start
        if run.word != "after":
            lead = list(body[start].leading_lines)
            number = len(lead)
            # Comments stay above the statement that they are about.
            while run.word == "before" and number and lead[number - 1].comment:
                number -= 1
            above += lead[:number]
            body[start] = body[start].with_changes(leading_lines=lead[number:])
        add(run.lines.body, run.lines.below)
        if run.word == "new":
            at = run.stop
    add(body[at:], old.below)
    return Lines(tuple(done), tuple(above))


def _list_comments(lines: Lines) -> list[cst.EmptyLine]:
    """The comments above and below the only statement of new code."""
    return [line for line in (*lines.body[0].leading_lines, *lines.below) if line.comment]


def _put_above(new: Iterable[cst.EmptyLine], first: bool = False) -> Callable[[Any], Any]:
    """Put lines above a statement, below those that are there or as the first."""
    every = list(new)

    def put(statement: Any) -> Any:
        lead = statement.leading_lines
        lead = [*every, *lead] if first else [*lead, *every]
        return statement.with_changes(leading_lines=lead) if every else statement

    return put


# Parameters


def _change_kind(
    old: Sequence[cst.Param],
    added: Sequence[cst.Param],
    new: Mapping[str, cst.Param],
    changes: Changes,
) -> list[cst.Param]:
    """The parameters of one kind after the changes; `new` has those that the edits declare."""
    every = [parameter for parameter in old if parameter.name.value not in changes.removed]
    for number, parameter in enumerate(every):
        if (name := parameter.name.value) in changes.changed:
            equal = parameter.equal if parameter.default else _equal(parameter.annotation)
            default = new[name].default
            every[number] = parameter.with_changes(default=default, equal=equal)
    for parameter in added:
        annotation = parameter.annotation
        match annotation:
            case cst.Annotation(cst.Subscript(slice=[cst.SubscriptElement(cst.Index(value))])):
                annotation = annotation.with_changes(annotation=value)
            case _:
                annotation = None
        equal = _equal(annotation) if parameter.default else parameter.equal
        every.append(parameter.with_changes(annotation=annotation, equal=equal))
    # The line break behind the last one is behind that which is last now.
    if old and every and every[-1].name.value != old[-1].name.value:
        tail = {name: getattr(old[-1], name) for name in _PLAIN}
        plain = [p.with_changes(**_PLAIN) if p is old[-1] else p for p in every[:-1]]
        every = [*plain, every[-1].with_changes(**tail)]
    return every


def _equal(annotation: cst.Annotation | None) -> cst.AssignEqual:
    """The `=` of a parameter, with spaces where it has an annotation."""
    space = cst.SimpleWhitespace(" " if annotation else "")
    return cst.AssignEqual(space, space)
