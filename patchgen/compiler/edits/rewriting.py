"""Replace matched places of a method in the tree of libcst, so that its layout stays.

In: a method, and what stands at the matches afterwards.  Out: the text and its tree, or None where
no text reads as the tree that is meant (quotes inside an f-string before Python 3.12).  Comments
and line breaks stay where the edits do not touch them, and those of new code come along.

    x * gate, with gate -> a + b        x * (a + b)     # parentheses only where they are needed
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import libcst as cst

from patchgen.compiler.edits.meant import Replaced, Replacement, build_meant, order_arguments
from patchgen.compiler.edits.pattern import Rest, Run, arguments, has_dots, is_ellipsis, suites
from patchgen.compiler.edits.signature import Changes
from patchgen.compiler.edits.tree import Line, Tree, leave_out, own_parentheses, read_tree
from patchgen.syntax.errors import Location
from patchgen.syntax.fragments import Fragment, parse_fragment
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import Function, walk

_MOST_TRIED = 24  # places whose parentheses are taken away one by one
_NOTHING = cst.SimpleWhitespace("")
_KINDS = ("posonly_params", "params", "kwonly_params")
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
    """The method after `changes`; raises PG308 at `at` where libcst cannot read it."""
    writer = _Writer(method, changes, signature, at)
    meant, copies = build_meant(method, changes, signature)
    # Most replacements need no parentheses; the others get all of them, less those that can go.
    sites = []
    for change in changes:
        for site in (change, *change.sites()):
            sites.append((id(change), id(site)))
    wrapped: set[tuple[int, int]] = set()
    text = writer.write(wrapped, meant)
    if text is None:
        wrapped = set(sites)
        text = writer.write(wrapped, meant)
        if text is None:
            return None
        for site in sites[:_MOST_TRIED]:
            fewer = writer.write(wrapped - {site}, meant)
            if fewer is not None:
                text, wrapped = fewer, wrapped - {site}
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
        self._waiting = len(parts)

    def on_visit(self, node: cst.CSTNode) -> bool:
        # Behind the last change, nothing has to be visited.
        return self._waiting > 0

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """The node after all that is to become of it."""
        changes = self._parts.get(original_node, ())
        if changes:
            self._waiting -= 1
        for change in changes:
            updated_node = change(updated_node)
        return updated_node


@dataclass(frozen=True)
class _Writer:
    """Writes the method after its changes, with parentheses around some of the places."""

    method: Fragment
    changes: Sequence[Replacement]
    signature: Changes
    at: Location

    def write(self, wrapped: set[tuple[int, int]], meant: Function) -> str | None:
        """The text, unless Python reads it as something else: `x * a + b` is not `x * (a + b)`."""
        nodes: list[ast.AST] = []
        for change in self.changes:
            nodes += change.match.nodes
        left_out = leave_out(self.method, nodes)
        tree = read_tree(self.method.text, self.at, left_out)
        try:
            parts = self._list_parts(tree, wrapped, meant)
            text = tree.changed(_Transformer(parts))
            return text if is_same_code(parse_fragment(text).nodes, (meant,)) else None
        # libcst has no node for some of what `ast` has, or sees that `not` needs a space.
        except (SyntaxError, KeyError, cst.CSTValidationError):
            return None

    def _list_parts(self, tree: Tree, wrapped: set[tuple[int, int]], meant: Function) -> _Parts:
        parts: _Parts = defaultdict(list)
        runs: dict[cst.CSTNode, list[NewRun]] = defaultdict(list)
        comments: dict[cst.CSTNode, list[cst.EmptyLine]] = defaultdict(list)
        for change in self.changes:
            place = change.match.place
            lines = self._write_new(change, tree, wrapped)
            if isinstance(place, Run):
                start, stop = tree.numbers(place)
                runs[tree.suite(place.suite)].append(NewRun(start, stop, lines, change.word))
                continue
            match lines.body[0]:
                case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
                    is_wrapped = (id(change), id(change)) in wrapped
                    put = partial(_put, value, is_wrapped)
                    parts[tree.expression(place)].append(put)
            # An expression has no line of its own for the comments of new code.
            for line in _list_comments(lines):
                above = comments[tree.statement_around(place)]
                if not any(map(line.deep_equals, above)):
                    above.append(line)
        for suite, of_suite in runs.items():
            parts[suite].append(partial(_replace_runs, of_suite))
        for statement, above in comments.items():
            parts[statement].append(partial(_put_above, above))
        if self.signature:
            parts[tree.function.params].append(partial(self._write_parameters, meant.args))
        return parts

    def _write_new(self, change: Replacement, tree: Tree, wrapped: set[tuple[int, int]]) -> Lines:
        """New code, in which the holes and the `...` are what they stand for."""
        code = read_tree(change.code.text, self.at)
        bound = change.match.bound
        parts: _Parts = defaultdict(list)
        for site in change.sites():
            value = bound.holes[site.id]
            assert value is not None
            is_wrapped = (id(change), id(site)) in wrapped
            put = partial(_put, tree.expression(value), is_wrapped)
            parts[code.expression(site)].append(put)
        for node in walk(change.part):
            if bound.rest and has_dots(node):
                old = tree.expression(bound.rest.call)
                insert = partial(_insert_rest, node, old, bound.rest)
                parts[code.expression(node)].append(insert)
        if bound.run:
            for suite in suites(change.part):
                dots = [number for number, node in enumerate(suite) if is_ellipsis(node)]
                if dots:
                    lines = Lines(())
                    if bound.run.nodes:
                        start, stop = tree.numbers(bound.run)
                        old_lines = _read_lines(tree.suite(bound.run.suite))
                        lines = Lines(old_lines.body[start:stop])
                    runs = [NewRun(number, number + 1, lines) for number in dots]
                    parts[code.suite(suite)].append(partial(_replace_runs, runs))
        block = code.with_block(change.part)
        lines = _read_new_lines(block.visit(_Transformer(parts)))
        if change.deletes:
            return Lines((), tuple(_list_comments(lines)))
        return lines

    def _write_parameters(self, meant: ast.arguments, old: cst.Parameters) -> cst.Parameters:
        parameters = _read_parameters(old)
        star_kwarg = old.star_kwarg
        for parameter in (*self.signature.added, *self.signature.changed.values()):
            name = parameter.name
            edit = read_tree(parameter.code.text, self.at).function
            rest = edit.params.star_kwarg
            if parameter.takes_rest and rest is not None:
                star_kwarg = _declare(rest, None)
                continue
            declared = _read_parameters(edit.params)[name]
            parameters[name] = _declare(declared, parameters.get(name))
        kinds: dict[str, list[cst.Param]] = {}
        lists = (meant.posonlyargs, meant.args, meant.kwonlyargs)
        for kind, nodes in zip(_KINDS, lists, strict=True):
            ordered = [parameters[node.arg] for node in nodes]
            previous = getattr(old, kind)
            # The line break behind the last one is behind that which is last now.
            if ordered and previous and previous[-1].name.value != nodes[-1].arg:
                last = previous[-1]
                tail = {name: getattr(last, name) for name in _PLAIN}
                if last in ordered:
                    place = ordered.index(last)
                    ordered[place] = last.with_changes(**_PLAIN)
                ordered[-1] = ordered[-1].with_changes(**tail)
            kinds[kind] = ordered
        star = old.star_arg
        if isinstance(star, cst.ParamStar) and not meant.kwonlyargs:
            star = cst.MaybeSentinel.DEFAULT
        slash = old.posonly_ind
        if not meant.posonlyargs:
            slash = cst.MaybeSentinel.DEFAULT
        if star_kwarg is not None and star_kwarg is not old.star_kwarg:
            # It is the last one now: the line break is behind it.
            before = next((kinds[kind] for kind in reversed(_KINDS) if kinds[kind]), [])
            if before and (meant.kwonlyargs or not isinstance(star, cst.Param)):
                tail = {name: getattr(before[-1], name) for name in _PLAIN}
                before[-1] = before[-1].with_changes(**_PLAIN)
                star_kwarg = star_kwarg.with_changes(**tail)
        stars = {"star_arg": star, "star_kwarg": star_kwarg}
        return old.with_changes(**kinds, **stars, posonly_ind=slash)


# Expressions


def _put(new: Any, wrap: bool, old: cst.BaseExpression) -> Any:
    """`new` in the place of `old`, within the parentheses around that."""
    # It can stand in brackets alone, and is written there in the place of an index.
    if isinstance(new, cst.Slice):
        return new
    old_own = own_parentheses(old)
    around = len(old.lpar) - old_own
    own = own_parentheses(new)
    left = [*old.lpar[:around], *new.lpar[len(new.lpar) - own :]]
    right = [*new.rpar[:own], *old.rpar[old_own:]]
    if wrap:
        left.insert(around, cst.LeftParen())
        right.insert(own, cst.RightParen())
    return new.with_changes(lpar=left, rpar=right)


def _insert_rest(node: ast.Call, old: Any, rest: Rest, call: cst.Call) -> cst.Call:
    """Put `rest`, arguments of `old`, into `call`, which is `node`, in the place of its `...`.

    old:  f(a, *more, scale=2)      where the pattern spells out `a`
    call: g(x, ..., bias=b)
    gives g(x, *more, scale=2, bias=b)
    """
    by_node: dict[int, cst.Arg] = {}
    dots = call.args[-1]
    for written, argument in zip(arguments(node), call.args, strict=True):
        by_node[id(written)] = argument
        if is_ellipsis(written):
            dots = argument
    matched = zip(arguments(rest.call), old.args, strict=True)
    for written, argument in matched:
        by_node[id(written)] = argument
    every = [by_node[id(argument)] for argument in order_arguments(node, rest)]
    old_last = old.args[-1:]
    for number, argument in enumerate(every[:-1]):
        space = argument.whitespace_after_arg
        if argument in old_last and isinstance(space, cst.SimpleWhitespace):
            every[number] = argument.with_changes(whitespace_after_arg=_NOTHING)
    if every:
        last = every[-1]
        # What stands behind an argument from the middle of a call may not stand at its end.
        if last not in (call.args[-1], *old_last):
            every[-1] = last.with_changes(comma=dots.comma, whitespace_after_arg=_NOTHING)
    return call.with_changes(args=every)


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
    below = suite.footer if isinstance(suite, cst.IndentedBlock) else ()
    return Lines(tuple(lines), tuple(below))


def _read_new_lines(suite: Any) -> Lines:
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


def _replace_runs(runs: Iterable[NewRun], suite: Any) -> Any:
    """Replace statements of `suite`; one that would be empty is `pass`."""
    lines = _replace_lines(_read_lines(suite), runs)
    if isinstance(suite, cst.If):
        return _replace_branch(suite, lines)
    if not lines.body:
        only = cst.SimpleStatementLine([cst.Pass()], leading_lines=lines.below)
        lines = Lines((only,))
    # `if x: a()` gets lines of its own.
    block = suite if isinstance(suite, cst.IndentedBlock) else cst.IndentedBlock(())
    return block.with_changes(body=lines.body, footer=lines.below)


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
            done.append(line.with_changes(leading_lines=[*above, *line.leading_lines]))
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
    return [line for line in (*lines.body[0].leading_lines, *lines.below) if line.comment]


def _put_above(new: Iterable[cst.EmptyLine], statement: Any) -> Any:
    return statement.with_changes(leading_lines=[*statement.leading_lines, *new])


# Parameters


def _read_parameters(params: cst.Parameters) -> dict[str, cst.Param]:
    """The parameters by their names, without `*args` and `**kwargs`."""
    listed = [*params.posonly_params, *params.params, *params.kwonly_params]
    return {param.name.value: param for param in listed}


def _declare(declared: cst.Param, old: cst.Param | None) -> cst.Param:
    """`old` with the default that is `declared`, or a new parameter with the `T` of `New[T]`."""
    parameter = old or declared.with_changes(**_PLAIN, annotation=None)
    match declared.annotation if old is None else None:
        case (
            cst.Annotation(cst.Subscript(slice=[cst.SubscriptElement(cst.Index(value))])) as of_new
        ):
            parameter = parameter.with_changes(annotation=of_new.with_changes(annotation=value))
    if declared.default is None:
        return parameter
    space = cst.SimpleWhitespace(" " if parameter.annotation else "")
    equal = old.equal if old and old.default else cst.AssignEqual(space, space)
    return parameter.with_changes(default=declared.default, equal=equal)
