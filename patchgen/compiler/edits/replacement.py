"""Replace matched places of a method, as text that Python reads as what was meant.

In: a method, and what stands at the matches afterwards.  Out: the text and its tree, or None where
no text reads as the changed tree (quotes inside an f-string before Python 3.12).  The changed tree
is built from the nodes of both sides; the text is written beside it, so that everything outside the
matches stays byte for byte, and is parsed again and compared.

    x * gate, with gate -> a + b        x * (a + b)     # parentheses only where they are needed
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchgen.compiler.edits.pattern import Argument, Match, Rest, Run, arguments, is_ellipsis
from patchgen.compiler.edits.signature import Changes, change_arguments, write_arguments
from patchgen.compiler.merge.text import (
    INDENT,
    Fragment,
    Splice,
    find_last_comment,
    indent_of,
    owns_lines,
    parse_fragment,
    reindent,
    splice,
    suite_text,
    suites,
)
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function, is_same_code
from patchgen.syntax.trees import statements_within, walk

_NewRun = tuple[int, int, list[ast.stmt]]  # statements for those from one number to another
_MOST_TRIED = 24  # places whose parentheses are taken away one by one
_COMMA = re.compile(r"(#[^\n]*)|,")
_CLOSED = re.compile(r"(?:(?:[\s\\]|#[^\n]*)*\))*")
_OPEN = re.compile(r"(?:[\s\\)]|#[^\n]*)*\(")


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands at `match` afterwards: the statements of `part`, which is a `with` of `code`.

    With "before" or "after" as the `word`, they stand there beside what matched.
    """

    match: Match
    code: Fragment
    part: ast.With
    word: str

    @property
    def deletes(self) -> bool:
        """Whether it is `pass`, which leaves nothing of what was matched."""
        return len(self.part.body) == 1 and isinstance(self.part.body[0], ast.Pass)

    @property
    def expression(self) -> ast.expr | None:
        """The expression that stands there, if it is nothing else."""
        match self.part.body:
            case [ast.Expr(value=value)]:
                return value
        return None

    def sites(self) -> Iterator[ast.Name]:
        """The holes in the new code; one of which the pattern bound nothing is a name."""
        for node in walk(self.part):
            if isinstance(node, ast.Name) and self.match.bound.holes.get(node.id) is not None:
                yield node


@dataclass(frozen=True, slots=True)
class Replaced:
    """A method after its replacements.

    `origins` has for each node of `tree`, by its identity, that of the method or of a declaration
    that it came from.
    """

    text: str
    tree: Function
    origins: Mapping[int, ast.AST]


def replace_matches(
    method: Fragment, changes: Sequence[Replacement], signature: Changes
) -> Replaced | None:
    """The method after all of `changes`, with no more parentheses than it needs."""
    meant, copies = _build(method, changes, signature)
    # Most replacements need no parentheses; the others get all of them, less those that can go.
    sites = [(id(change), id(site)) for change in changes for site in [change, *change.sites()]]
    wrapped: set[tuple[int, int]] = set()
    text = _write(method, changes, signature, wrapped)
    if not _reads_as(text, meant):
        wrapped = set(sites)
        text = _write(method, changes, signature, wrapped)
        if not _reads_as(text, meant):
            return None
        for site in sites[:_MOST_TRIED]:
            fewer = _write(method, changes, signature, wrapped - {site})
            if _reads_as(fewer, meant):
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


def _reads_as(text: str, meant: ast.AST) -> bool:
    """Whether Python reads `text` as the tree: `x * a + b` is not `x * (a + b)`."""
    try:
        return is_same_code(parse_fragment(text).nodes, (meant,))
    except SyntaxError:
        return False


def spread(method: Fragment, runs: Sequence[Run]) -> Fragment:
    """The method with lines of their own for all statements of the suites that hold `runs`."""
    splices: list[Splice] = []
    for suite in {id(run.suite): run.suite for run in runs}.values():
        indent, end = indent_of(method.lines[suite[0].lineno - 1]), 0
        for number, node in enumerate(suite):
            start, stop = method.span(node)
            if method.text[:start].split("\n")[-1].strip():
                # `if x: a()` has no lines of its own.
                if number == 0:
                    indent, end = indent + INDENT, len(method.text[:start].rstrip())
                splices.append(Splice(end, start, f"\n{indent}"))
            end = stop
    return parse_fragment(splice(method.text, splices))


def shares_lines(method: Fragment, run: Run) -> bool:
    """Whether something else stands on the lines of `run`."""
    if not run.nodes or _is_elif(method, run.suite):
        return False
    return not owns_lines(method, run.suite, run.start, run.stop)


# The tree that is meant.


def _build(
    method: Fragment, changes: Sequence[Replacement], signature: Changes
) -> tuple[ast.AST, dict[int, ast.AST]]:
    """The tree of the method after `changes`, and the node that each copied node was."""
    copies: dict[int, ast.AST] = {}
    places: dict[int, ast.AST] = {}
    runs: dict[int, list[_NewRun]] = {}
    (node,) = method.nodes
    assert isinstance(node, Function)
    if signature:
        places[id(node.args)] = change_arguments(node.args, signature, method, copies)
    for change in changes:
        bound, new = change.match.bound, change.part.body
        holes: dict[int, ast.AST] = {}
        for site in change.sites():
            value = bound.holes[site.id]
            assert value is not None
            holes[id(site)] = value
        dots: dict[int, list[_NewRun]] = {}
        if bound.run:
            for suite in suites(change.part):
                at = [number for number, node in enumerate(suite) if is_ellipsis(node)]
                dots[id(suite)] = [(n, n + 1, list(bound.run.nodes)) for n in at]
        build = _Build(holes, dots, bound.rest, copies)
        statements = [] if change.deletes else build.all(new)
        place = change.match.place
        if isinstance(place, Run):
            start = place.stop if change.word == "after" else place.start
            stop = place.start if change.word == "before" else place.stop
            # What is put behind a statement comes before what is put above the next.
            new_run = (start, stop, statements)
            of_suite = runs.setdefault(id(place.suite), [])
            of_suite.insert(0 if change.word == "after" else len(of_suite), new_run)
            continue
        (statement,) = statements
        assert isinstance(statement, ast.Expr)
        places[id(place)] = statement.value
    build = _Build(places, runs, None, copies)
    for suite in suites(node):
        if id(suite) in runs and _is_elif(method, suite):
            build.branches.add(id(suite))
    return build.node(node), copies


class _Build:
    """Builds a tree with other nodes at some places; what holds none of them is not copied."""

    def __init__(
        self,
        places: Mapping[int, ast.AST],
        runs: Mapping[int, list[_NewRun]],
        rest: Rest | None,
        copies: dict[int, ast.AST],
    ) -> None:
        self.places, self.runs, self.rest, self.copies = places, runs, rest, copies
        self.branches: set[int] = set()

    def node(self, node: ast.AST) -> ast.AST:
        """What becomes of `node`."""
        if id(node) in self.places:
            return self.places[id(node)]
        fields = dict(ast.iter_fields(node))
        changed = {
            name: self.node(value) if isinstance(value, ast.AST) else self.all(value)
            for name, value in fields.items()
            if isinstance(value, ast.AST | list)
        }
        if isinstance(node, ast.Call) and self.rest and any(map(is_ellipsis, node.args)):
            every = [self.node(argument) for argument in order_arguments(node, self.rest)]
            changed["args"] = [each for each in every if not isinstance(each, ast.keyword)]
            changed["keywords"] = [each for each in every if isinstance(each, ast.keyword)]
        if all(fields[name] is value for name, value in changed.items()):
            return node
        copy = type(node)(**fields | changed)
        self.copies[id(copy)] = ast.copy_location(node, node)
        return copy

    def all(self, nodes: list[Any]) -> list[Any]:
        """What becomes of a list of nodes; a suite that would be empty is `pass`."""
        done: list[Any] = []
        at = 0
        for start, stop, new in sorted(self.runs.get(id(nodes), ()), key=lambda run: run[:2]):
            done += [*map(self._item, nodes[at:start]), *new]
            at = stop
        done += map(self._item, nodes[at:])
        if nodes and not done and id(nodes) not in self.branches:
            return [ast.Pass()]
        is_same = len(done) == len(nodes) and all(map(lambda a, b: a is b, done, nodes))
        return nodes if is_same else done

    def _item(self, value: object) -> object:
        return self.node(value) if isinstance(value, ast.AST) else value


def order_arguments(call: ast.Call, rest: Rest) -> list[Argument]:
    """The arguments of `call` with those of `rest` in the place of its `...`.

    Arguments by position come before those by name, and `**` is last, unless `rest` has arguments
    by name behind it.
    """

    def rank(argument: Argument) -> int:
        if not isinstance(argument, ast.keyword):
            return 0
        return 2 if argument.arg is None and stars_are_last else 1

    stars_are_last = True
    stars_are_last = list(rest.arguments) == sorted(rest.arguments, key=rank)
    every: list[Argument] = []
    for argument in arguments(call):
        every += rest.arguments if is_ellipsis(argument) else [argument]
    # The sort is stable, so that arguments of one kind keep their order.
    return sorted(every, key=rank)


# The text.


def _write(
    method: Fragment,
    changes: Sequence[Replacement],
    signature: Changes,
    wrapped: set[tuple[int, int]],
) -> str:
    """The text with parentheses around the holes and expressions that are `wrapped`."""
    pieces: dict[tuple[int, int], list[str]] = {}
    (node,) = method.nodes
    assert isinstance(node, Function)
    for start, end, text in write_arguments(node.args, signature, method) if signature else ():
        pieces.setdefault((start, end), []).append(text)
    emptied: dict[int, list[Run]] = {}
    for change in changes:
        splices = _fill(change, method, wrapped)
        place, comments = change.match.place, _list_comments(change)
        if not isinstance(place, Run):
            value = change.expression
            assert value is not None
            text = splice(change.code.text, splices, *change.code.span(value))
            is_wrapped = (id(change), id(change)) in wrapped
            pieces.setdefault(method.span(place), []).append(f"({text})" if is_wrapped else text)
            if not comments:
                continue
            # An expression has no line of its own for the comments of new code.
            line = first_line(_find_statement(method, place))
            start = method.line_span(line, line)[0]
            above = pieces.setdefault((start, start), [])
            new = [f"{indent_of(method.lines[line - 1])}{comment}\n" for comment in comments]
            above += [comment for comment in new if comment not in above]
            continue
        first, last = _lines_of(method, place)
        indent = indent_of(method.lines[first - 1])
        is_branch = _is_elif(method, place.suite)
        span = method.line_span(first, last)
        if change.word == "after":
            span = span[1], span[1]
        elif change.word == "before":
            # Comments stay above the statement that they are about.
            while method.lines[first - 2].startswith(f"{indent}#"):
                first -= 1
            span = (method.line_span(first, last)[0],) * 2
        if change.deletes:
            text = "".join(f"{indent}{comment}\n" for comment in comments)
            if not is_branch and change.word == "new":
                emptied.setdefault(id(place.suite), []).append(place)
        else:
            body = change.part.body
            text, old_indent = suite_text(change.code, body, _header_end(change.part), splices)
            if is_branch and not (len(body) == 1 and isinstance(body[0], ast.If)):
                text = f"{indent}else:\n{reindent(text, old_indent, indent + INDENT)}"
            else:
                text = reindent(text, old_indent, indent)
                if is_branch:
                    # A single `if` is an `elif` again; nothing but comments stands above it.
                    text = re.sub(r"(?m)^(\s*)if\b", r"\1elif", text, count=1)
        texts = pieces.setdefault(span, [])
        texts.insert(0 if change.word == "after" else len(texts), text)
    for runs in emptied.values():
        suite = runs[0].suite
        if sum(run.stop - run.start for run in runs) == len(suite):
            first, last = _lines_of(method, Run(suite, 0, len(suite)))
            indent = indent_of(method.lines[first - 1])
            end = method.line_span(1, find_last_comment(method, last, indent))[1]
            pieces.setdefault((end, end), []).insert(0, f"{indent}pass\n")
    done: list[str] = []
    at = 0
    for (start, end), texts in sorted(pieces.items()):
        done += [method.text[at:start], *texts]
        at = end
    return "".join([*done, method.text[at:]])


def _fill(change: Replacement, method: Fragment, wrapped: set[tuple[int, int]]) -> list[Splice]:
    """The holes and the `...` of new code become what they stand for."""
    code, bound = change.code, change.match.bound
    splices: list[Splice] = []
    for site in change.sites():
        value = bound.holes[site.id]
        assert value is not None
        text = method.source(value)
        is_wrapped = (id(change), id(site)) in wrapped
        splices.append(Splice(*code.span(site), f"({text})" if is_wrapped else text))
    holes = tuple(splices)
    for node in walk(change.part):
        if isinstance(node, ast.Call) and bound.rest and any(map(is_ellipsis, node.args)):
            opened = _OPEN.match(code.text, code.span(node.func)[1])
            assert opened is not None
            text = _write_arguments(node, code, holes, bound.rest, method)
            splices.append(Splice(opened.end(), code.span(node)[1] - 1, text))
    if not bound.run:
        return splices
    for suite in suites(change.part):
        for number in (number for number, node in enumerate(suite) if is_ellipsis(node)):
            node = suite[number]
            line = code.lines[node.lineno - 1]
            if owns_lines(code, suite, number, number + 1):
                text = _run_text(method, bound.run, indent_of(line))
                splices.append(Splice(*code.line_span(node.lineno, node.lineno), text))
            else:
                text = _run_text(method, bound.run, indent_of(line) + INDENT)
                splices.append(Splice(*code.span(node), f"\n{text}".removesuffix("\n")))
            if suite == [node] and not bound.run.nodes:
                splices[-1] = Splice(*code.span(node), "pass")
    return splices


def _write_arguments(
    call: ast.Call, code: Fragment, holes: Sequence[Splice], rest: Rest, method: Fragment
) -> str:
    """What stands between the parentheses of `call` where its `...` stands for `rest`.

    old:  f(a, *more, scale=2)      where the pattern spells out `a`
    call: g(x, ..., bias=b)
    gives g(x, *more, scale=2, bias=b)
    """
    every = order_arguments(call, rest)
    if not every:
        return ""
    own, own_tail = _split_arguments(code, call, holes)
    old, old_tail = _split_arguments(method, rest.call)
    texts = [(own | old)[id(argument)] for argument in every]
    old_last, own_last = arguments(rest.call)[-1], arguments(call)[-1]
    tail = ""
    if every[-1] is old_last:
        tail = old_tail
    elif every[-1] is own_last or is_ellipsis(own_last):
        tail = own_tail
    for number, argument in enumerate(every[:-1]):
        # A comment behind the last argument stays behind it.
        if argument is old_last and "#" in old_tail:
            texts[number + 1] = _COMMA.sub(lambda m: m[1] or "", old_tail) + texts[number + 1]
    texts = [text if text[0].isspace() else f" {text}" for text in texts]
    if "\n" not in texts[0]:
        texts[0] = texts[0].lstrip()
    return ",".join(texts) + tail


def _split_arguments(
    code: Fragment, call: ast.Call, splices: Sequence[Splice] = ()
) -> tuple[dict[int, str], str]:
    """Each argument with the white space and comments before it, and what is behind the last."""
    opened = _OPEN.match(code.text, code.span(call.func)[1])
    assert opened is not None
    texts: dict[int, str] = {}
    end, close = opened.end(), code.span(call)[1] - 1
    for argument in arguments(call):
        start, stop = code.span(argument)
        closed = _CLOSED.match(code.text, stop, close)
        assert closed is not None
        gap = _COMMA.sub(lambda m: m[1] or "", code.text[end:start])
        texts[id(argument)] = gap + splice(code.text, splices, start, closed.end())
        end = closed.end()
    return texts, code.text[end:close]


def _run_text(method: Fragment, run: Run, indent: str) -> str:
    """The lines of `run` with the comments above it, for a place that is indented by `indent`."""
    if not run.nodes:
        return ""
    first, last = _lines_of(method, run)
    top, old_indent = first, indent_of(method.lines[first - 1])
    above = _lines_of(method, Run(run.suite, 0, run.start))[1] if run.start else 0
    while top - 1 > above and method.lines[top - 2].lstrip()[:1] in ("", "#"):
        top -= 1
    text = method.text[slice(*method.line_span(top, last))]
    if _is_elif(method, run.suite):
        text = text.replace("elif", "if", 1)
    return reindent(text if text.endswith("\n") else f"{text}\n", old_indent, indent)


def _list_comments(change: Replacement) -> list[str]:
    """The comments above and below the only statement of new code."""
    code, body, above = change.code, change.part.body, _header_end(change.part)
    first, last = first_line(body[0]), body[-1].end_lineno or 0
    if first <= above:
        return []
    end = find_last_comment(code, last, indent_of(code.lines[first - 1]))
    lines = [*code.lines[above : first - 1], *code.lines[last:end]]
    return [line.strip() for line in lines if line.strip()]


def _header_end(part: ast.With) -> int:
    """The line on which `with new:` ends."""
    return part.items[-1].context_expr.end_lineno or part.lineno


def _lines_of(method: Fragment, run: Run) -> tuple[int, int]:
    """The first and the last line of a run, with comments below it that are indented deeper."""
    first, last = first_line(run.nodes[0]), run.nodes[-1].end_lineno or 0
    return first, find_last_comment(method, last, f"{indent_of(method.lines[first - 1])} ")


def _is_elif(method: Fragment, suite: Sequence[ast.stmt]) -> bool:
    """Whether a suite is an `if` alone under `else:` that is written as `elif`."""
    only = suite[0] if len(suite) == 1 else None
    return isinstance(only, ast.If) and method.source(only).startswith("elif")


def _find_statement(method: Fragment, node: ast.expr) -> ast.stmt:
    """The innermost statement around `node`."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    found = method.nodes[0]
    for outer in statements_within(found):
        if (
            isinstance(outer, ast.stmt)
            and (outer.lineno, outer.col_offset) <= start
            and end <= (outer.end_lineno or 0, outer.end_col_offset or 0)
        ):
            found = outer
    return found
