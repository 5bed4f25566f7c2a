"""Read a method as libcst does: code, white space and comments in one tree, lossless.

In: a statement of a class body that is a function.  Out: its `Tree`, which gives the text back byte
for byte.  Only classes with edits, and `patchgen check --lint`, get here: importing libcst is slow.

    x = f( y )  # twice         `ast` has the names and the call; this tree also has the spaces and
                                the comment, which stay where an edit does not touch them
"""

from __future__ import annotations

import ast
import functools
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from patchgen.compiler.edits.pattern import Run
from patchgen.compiler.merge.text import INDENT
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.fragments import Fragment, parse_fragment, split_lines
from patchgen.syntax.text import read_tokens
from patchgen.syntax.trees import Function, children, position_of

Position = tuple[int, int]
_Span = tuple[Position, Position]
Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
_HEAD = "class _:\n"
_TAIL = f"{INDENT}pass\n"
_MARK = "__left_out_"
_CONFIG = cst.PartialParserConfig(default_indent=INDENT, default_newline="\n")
# libcst's parser recurses in native code, where no exception stops it.  These limits are far below
# those at which it overflows its stack.
_MOST_BRACKETS = 60
_MOST_LEVELS = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The first or last `count` statements of a function, which its tree has as one line.

    libcst needs milliseconds for each of them, and nothing changes there.
    """

    first: int  # line
    last: int
    count: int
    text: str


@dataclass(frozen=True)
class Tree:
    """The function that `code` is, in a class; its nodes are found by those that `ast` has."""

    code: Fragment
    module: cst.Module
    left_out: tuple[LeftOut, ...] = ()

    @property
    def function(self) -> cst.FunctionDef:
        holder = cst.ensure_type(self.module.body[0], cst.ClassDef)
        return cst.ensure_type(holder.body.body[0], cst.FunctionDef)

    @property
    def _statements(self) -> Sequence[ast.stmt]:
        """Those of the function, as `ast` has them."""
        (function,) = self.code.nodes
        assert isinstance(function, Function)
        return function.body

    def changed(self, transformer: cst.CSTTransformer) -> str:
        """The text of the function after `transformer`."""
        text = self.module.visit(transformer).code.removeprefix(_HEAD).removesuffix(_TAIL)
        for part in self.left_out:
            text = text.replace(part.text, "".join(self.code.lines[part.first - 1 : part.last]))
        return text

    @functools.cached_property
    def positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        """Where each node stands; line 1 is that of the class, columns are characters."""
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        # `resolve` would visit the tree once more, for other providers.
        return cast(Mapping[cst.CSTNode, CodeRange], PositionProvider()._gen(wrapper))

    def expression(self, node: ast.expr) -> cst.BaseExpression:
        """The expression `node`; raises KeyError where libcst has none of its own."""
        start = self._position(node)
        end = self._position(node, at_end=True)
        if isinstance(node, ast.GeneratorExp) and (end, end) in self._expressions:
            return self._expressions[end, end]
        return self._expressions[start, end]

    def suite(self, nodes: Sequence[ast.stmt]) -> cst.BaseSuite | cst.If:
        """The suite that begins with `nodes`; of an `elif`, the `if` that it belongs to."""
        # The positions of all nodes would take longer.
        if nodes[0] is self._statements[0]:
            return self.function.body
        return self._suites[self._position(nodes[0])]

    def with_block(self, node: ast.With) -> cst.BaseSuite:
        """The suite of a `with` of the function; the positions of all nodes would take longer."""
        lines = [one.lineno for one in self._statements if isinstance(one, ast.With)]
        if node.lineno in lines:
            statements = self.function.body.body
            blocks = [one.body for one in statements if isinstance(one, cst.With)]
            return blocks[lines.index(node.lineno)]
        suite = self.suite(node.body)  # in a loop around it
        assert not isinstance(suite, cst.If)
        return suite

    def numbers(self, run: Run) -> tuple[int, int]:
        """Where the statements of `run` begin and end in the tree's suite."""
        # Nothing of what is left out is a part of a run.
        fewer = 0
        if run.suite[0] is self._statements[0]:
            first = run.nodes[0].lineno
            fewer = sum(part.count - 1 for part in self.left_out if part.last < first)
        return run.start - fewer, run.stop - fewer

    def statement_around(self, node: ast.expr) -> Line:
        """The innermost statement around `node` that has lines of its own."""
        line, column = self._position(node)
        # The positions of outer nodes come behind those of the nodes in them.
        return next(
            outer
            for outer, at in self.positions.items()
            if isinstance(outer, Line)
            and (at.start.line, at.start.column) <= (line, column) < (at.end.line, at.end.column)
        )

    def _position(self, node: ast.expr | ast.stmt, at_end: bool = False) -> Position:
        line, column = position_of(node)
        if at_end:
            line = node.end_lineno or 0
            column = node.end_col_offset or 0
        left_out = sum(part.last - part.first for part in self.left_out if part.last < line)
        # The first line of the tree is that of the class around the function.
        return line + 1 - left_out, self.code.column(line, column)

    @functools.cached_property
    def _expressions(self) -> Mapping[_Span, cst.BaseExpression]:
        """The expressions by where they begin and end, as `ast` counts."""
        spans: dict[_Span, Any] = {}
        for node in self.positions:
            match node:
                # For `ast`, these begin and end with their own parentheses.
                case cst.BaseExpression() if own_parentheses(node):
                    opening = node.lpar[-1]
                    closing = node.rpar[0]
                    spans[self._span(opening, closing)] = node
                # For `ast`, slices are expressions too.
                case cst.BaseExpression() | cst.Slice():
                    spans[self._span(node, node)] = node
            match node:
                # `x[i, 1]` holds a tuple for `ast` alone.
                case cst.Subscript(slice=[first, *_, last] as parts):
                    held: list[Any] = [getattr(part.slice, "value", part.slice) for part in parts]
                    elements = [*map(cst.Element, held)]
                    spans[self._span(first, last)] = cst.Tuple(elements, [], [])
                # `f(x for x in y)`: they are those of the call, of which only the end is sure.
                case cst.Call(args=[cst.Arg(value=cst.GeneratorExp(lpar=[]) as only)]):
                    end = self._end(node)
                    spans[end, end] = only
        return spans

    @functools.cached_property
    def _suites(self) -> Mapping[Position, cst.BaseSuite | cst.If]:
        starts: dict[Position, cst.BaseSuite | cst.If] = {}
        for node in self.positions:
            match node:
                case cst.IndentedBlock() | cst.SimpleStatementSuite():
                    starts[self._start(node.body[0])] = node
                case cst.If(orelse=cst.If() as branch):
                    starts[self._start(branch)] = node
        return starts

    def _span(self, first: cst.CSTNode, last: cst.CSTNode) -> _Span:
        return self._start(first), self._end(last)

    def _start(self, node: cst.CSTNode) -> Position:
        start = self.positions[node].start
        return start.line, start.column

    def _end(self, node: cst.CSTNode) -> Position:
        end = self.positions[node].end
        return end.line, end.column


def own_parentheses(node: cst.BaseExpression) -> int:
    """How many of the parentheses around `node` are a part of it: those of `(a, b)` are."""
    return int(isinstance(node, cst.Tuple | cst.GeneratorExp) and bool(node.lpar))


@functools.lru_cache(maxsize=64)
def _parse(text: str, left_out: tuple[LeftOut, ...]) -> Tree:
    code = parse_fragment(text)
    lines = list(split_lines(text))
    for part in reversed(left_out):
        lines[part.first - 1 : part.last] = [part.text]
    # A statement below it lets libcst see to which suite the last comments belong.
    return Tree(code, cst.parse_module(f"{_HEAD}{''.join(lines)}{_TAIL}", _CONFIG), left_out)


def leave_out(method: Fragment, changed: Sequence[ast.AST]) -> tuple[LeftOut, ...]:
    """What the tree of `method` can do without, of which the nodes `changed` are to be changed."""
    (function,) = method.nodes
    assert isinstance(function, Function)
    body = function.body
    lines = method.lines
    # A statement behind another on its line, or behind a decorator, is not told apart by its line.
    if _MARK in method.text or any(lines[s.lineno - 1][: s.col_offset].strip() for s in body):
        return ()
    spans = [(node.lineno, node.end_lineno) for node in changed]  # type: ignore[attr-defined]
    kept = []
    for number, statement in enumerate(body):
        above = first_line(statement)
        below = statement.end_lineno or 0
        if any(first <= below and last >= above for first, last in spans):
            kept.append(number)
    start = stop = len(body)
    if kept:
        start = kept[0]
        stop = kept[-1] + 1
    margin = " " * body[0].col_offset
    left_out = []
    for number, part in enumerate([body[:start], body[stop:]]):
        # A decorator stands above the line of its function.
        if len(part) > 1 and part[0].lineno == first_line(part[0]):
            mark = f"{margin}{_MARK}{number}\n"
            left_out.append(LeftOut(part[0].lineno, part[-1].end_lineno or 0, len(part), mark))
    return tuple(left_out)


def read_tree(text: str, at: Location, left_out: tuple[LeftOut, ...] = ()) -> Tree:
    """The tree of the function `text`; raises PG308 at `at` where libcst cannot read it."""
    # Checked before parsing: an overflow would end the process.
    if _count_brackets(text) > _MOST_BRACKETS or _count_levels(text) > _MOST_LEVELS:
        what = "an edit of a method that is nested too deeply, "
        what += f"beyond {_MOST_BRACKETS} brackets or {_MOST_LEVELS} levels"
        raise PatchgenError("PG308", at, what, "override the method")
    try:
        return _parse(text, left_out)
    except cst.ParserSyntaxError as error:
        what = "an edit of a method that libcst cannot parse"
        hint = "override the method, or write it in other syntax"
        raise PatchgenError("PG308", at, what, hint) from error


def _count_brackets(text: str) -> int:
    """How many brackets are open at once at most, or a number that is no smaller."""
    # No more can be open than there are.
    every = sum(map(text.count, "([{"))
    if every <= _MOST_BRACKETS:
        return every
    # Inside strings there are no tokens of brackets.
    depth = most = 0
    for token in read_tokens(f"{_HEAD}{text}"):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            most = max(most, depth)
    return most


def _count_levels(text: str) -> int:
    """How deeply the nodes of the syntax tree are nested at most; long sums are deep."""
    levels = 0
    nodes = list[ast.AST](parse_fragment(text).nodes)
    while nodes:
        levels += 1
        nodes = list(chain.from_iterable(map(children, nodes)))
    return levels
