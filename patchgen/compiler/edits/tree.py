"""Read a method as libcst does: code, white space and comments in one tree, lossless.

In: a statement of a class body that is a function.  Out: its `Tree`, which gives the text back byte
for byte.  Only classes with edits get here, so that nothing else pays for importing libcst.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from patchgen.compiler.classes.fragment import INDENT, parse_fragment
from patchgen.errors import Location, PatchgenError

_HEAD = "class _:\n"
_CONFIG = cst.PartialParserConfig(default_indent=INDENT, default_newline="\n")
# libcst's parser recurses in native code, where no exception stops it.  These limits are far below
# those at which it overflows its stack.
_MOST_BRACKETS = 60
_MOST_LEVELS = 200


@dataclass(frozen=True, slots=True)
class Tree:
    """The only statement of a class body; `spans` numbers its nodes in the order of the text."""

    module: cst.Module
    function: cst.FunctionDef
    spans: Mapping[int, tuple[int, int]]

    @property
    def text(self) -> str:
        """The text of the statement."""
        return self.module.code.removeprefix(_HEAD)

    def span(self, nodes: Sequence[cst.CSTNode]) -> tuple[int, int]:
        """The numbers of the first and the last node of `nodes` and of what they hold."""
        return self.spans[id(nodes[0])][0], self.spans[id(nodes[-1])][1]

    def line(self, node: cst.CSTNode) -> int:
        """The line of the statement's text that `node` begins on, from 1."""
        return self.lines([[node]])[0][0]

    def lines(self, runs: Sequence[Sequence[cst.CSTNode]]) -> list[tuple[int, int]]:
        """The first and the last line of the statement's text that each of `runs` stands on."""
        # Positions cost as much as writing the text: they are computed for all runs at once.
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        at = wrapper.resolve(PositionProvider)
        # The first line of the tree is that of the class around the statement.
        return [(at[run[0]].start.line - 1, at[run[-1]].end.line - 1) for run in runs]

    def visited(self, transformer: cst.CSTTransformer) -> tuple[cst.FunctionDef, str]:
        """The function after `transformer`, and the text of the statement."""
        module = self.module.visit(transformer)
        return _function(module), module.code.removeprefix(_HEAD)


def read_tree(text: str, at: Location) -> Tree:
    """The tree of `text`, a function indented as in a class body.

    Raises PatchgenError PG308 at `at` where libcst cannot read it.
    """
    # Checked before parsing: an overflow would end the process.
    if _count_brackets(text) > _MOST_BRACKETS or _count_levels(text) > _MOST_LEVELS:
        raise _too_deep(at)
    try:
        module = parse_method(text)
        function = _function(module)
        return Tree(module, function, dict(_spans(function)))
    except RecursionError as error:
        raise _too_deep(at) from error
    except cst.ParserSyntaxError as error:
        what = "an edit of a method that libcst cannot parse"
        hint = "override the method, or write it in other syntax"
        raise PatchgenError("PG308", at, what, hint) from error


def read_function(text: str) -> cst.FunctionDef:
    """The function that `text` is; raises cst.ParserSyntaxError where it is none."""
    return _function(parse_method(text))


def parse_method(text: str) -> cst.Module:
    """The module that has `text` as the body of its only class."""
    return cst.parse_module(f"{_HEAD}{text}", _CONFIG)


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything inside it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def _function(module: cst.Module) -> cst.FunctionDef:
    """The one function in the one class of a module that `parse_method` gives."""
    holder = module.body[0]
    assert isinstance(holder, cst.ClassDef)
    function = holder.body.body[0]
    assert isinstance(function, cst.FunctionDef)
    return function


def _spans(function: cst.FunctionDef) -> Iterator[tuple[int, tuple[int, int]]]:
    """For each node, by its identity: its number, and that of the last node in it."""
    nodes = list(walk(function))
    numbers = {id(node): number for number, node in enumerate(nodes)}
    # From the end, so that the spans of children are known.
    last: dict[int, int] = {}
    for node in reversed(nodes):
        last[id(node)] = max([numbers[id(node)], *(last[id(child)] for child in node.children)])
    yield from ((id(node), (numbers[id(node)], last[id(node)])) for node in nodes)


def _too_deep(at: Location) -> PatchgenError:
    """The error for code that libcst could not read without overflowing its stack."""
    what = (
        "an edit of a method that is nested too deeply, "
        f"beyond {_MOST_BRACKETS} brackets or {_MOST_LEVELS} levels"
    )
    return PatchgenError("PG308", at, what, "override the method")


def _count_brackets(text: str) -> int:
    """How many brackets are open at once at most."""
    # Inside strings there are no tokens of brackets.
    depth = most = 0
    for token in tokenize.generate_tokens(io.StringIO(f"{_HEAD}{text}").readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            most = max(most, depth)
    return most


def _count_levels(text: str) -> int:
    """How deeply the nodes of the syntax tree are nested at most.

    Long sums and chains of calls are deep.
    """
    levels, nodes = 0, list[ast.AST](parse_fragment(text).nodes)
    while nodes:
        levels += 1
        nodes = [child for node in nodes for child in ast.iter_child_nodes(node)]
    return levels
