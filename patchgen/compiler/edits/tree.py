"""Read a method as libcst does: code, white space and comments in one tree, lossless.

In: a statement of a class body that is a function.  Out: its `Tree`, which gives the text back byte
for byte.  Only classes with edits get here, so that nothing else pays for importing libcst.

    x = f( y )  # twice         `ast` has the names and the call; this tree also has the spaces and
                                the comment, which stay where the edit does not touch them
"""

from __future__ import annotations

import ast
import dataclasses
import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from patchgen.compiler.edits.syntax import is_node, is_writing
from patchgen.compiler.merge.text import INDENT, parse_fragment
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import children

_HEAD = "class _:\n"
_CONFIG = cst.PartialParserConfig(default_indent=INDENT, default_newline="\n")
# libcst's parser recurses in native code, where no exception stops it.  These limits are far below
# those at which it overflows its stack.
_MOST_BRACKETS = 60
_MOST_LEVELS = 200


@dataclass(frozen=True, slots=True)
class Tree:
    """The only statement of a class body.

    `nodes` are those of the function that are code, in the order of the text; white space and
    punctuation are left out.  `spans` has, for each of them by its identity, its number in `nodes`
    and that of the last node in it.
    """

    module: cst.Module
    function: cst.FunctionDef
    nodes: Sequence[cst.CSTNode]
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

    def visited(self, transformer: Transformer) -> tuple[cst.FunctionDef, str]:
        """The function after `transformer`, and the text of the statement."""
        module = self.module.visit(transformer)
        return _function(module), module.code.removeprefix(_HEAD)

    def write(self, function: cst.FunctionDef) -> str:
        """The text of another function in the place of this one."""
        holder = self.module.body[0]
        assert isinstance(holder, cst.ClassDef)
        body = holder.body.with_changes(body=[function])
        module = self.module.with_changes(body=[holder.with_changes(body=body)])
        return module.code.removeprefix(_HEAD)


class Transformer(cst.CSTTransformer):
    """A transformer that handles all nodes alike.

    libcst looks for a method of every kind of node and of each of its fields, which takes as long
    as the visit itself.
    """

    def on_visit(self, node: cst.CSTNode) -> bool:
        """As in libcst."""
        return True

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """As in libcst."""


def read_tree(text: str, at: Location) -> Tree:
    """The tree of `text`, a function indented as in a class body.

    Raises PatchgenError PG308 at `at` where libcst cannot read it.
    """
    # Checked before parsing: an overflow would end the process.
    if _count_brackets(text) > _MOST_BRACKETS or _count_levels(text) > _MOST_LEVELS:
        raise _too_deep(at)
    try:
        module = _parse_method(text)
        function = _function(module)
        nodes, spans = number_nodes(function)
        return Tree(module, function, nodes, spans)
    except RecursionError as error:
        raise _too_deep(at) from error
    except cst.ParserSyntaxError as error:
        what = "an edit of a method that libcst cannot parse"
        hint = "override the method, or write it in other syntax"
        raise PatchgenError("PG308", at, what, hint) from error


def read_function(text: str) -> cst.FunctionDef:
    """The function that `text` is; raises cst.ParserSyntaxError where it is none."""
    return _function(_parse_method(text))


def _parse_method(text: str) -> cst.Module:
    """The module that has `text` as the body of its only class."""
    return cst.parse_module(f"{_HEAD}{text}", _CONFIG)


def walk(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """`node` and the code inside it, in the order of the text."""
    return number_nodes(node)[0]


def number_nodes(node: cst.CSTNode) -> tuple[list[cst.CSTNode], dict[int, tuple[int, int]]]:
    """The code in `node` in the order of the text, and the span of each node by its identity."""
    nodes: list[cst.CSTNode] = []
    spans: dict[int, tuple[int, int]] = {}

    def add(node: cst.CSTNode) -> None:
        first = len(nodes)
        nodes.append(node)
        for child in _list_children(node):
            add(child)
        spans[id(node)] = (first, len(nodes) - 1)

    add(node)
    return nodes, spans


def _list_children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The code right below `node`, in the order of the text.

    Two thirds of the nodes are white space.  A visit by libcst, and `CSTNode.children` too, would
    copy every node below it.
    """
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = _order_fields(node)
    found: list[cst.CSTNode] = []
    for name in _FIELDS[kind]:
        value: object = getattr(node, name)
        if isinstance(value, tuple | list):
            found += value
        elif is_node(value):
            found.append(value)
    return found


# The fields of each kind of node that has been met.
_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {}


class _FieldOrder(cst.CSTVisitor):
    """Records in which order a visit goes through the fields of one node."""

    def __init__(self, node: cst.CSTNode) -> None:
        super().__init__()
        self._node = node
        self.names: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node is self._node

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        self.names.append(attribute)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Nothing, as in `Transformer`."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """Nothing, as in `Transformer`."""


def _order_fields(node: cst.CSTNode) -> tuple[str, ...]:
    """The fields of code of a node such as `node`, in the order in which libcst visits them."""
    order = _FieldOrder(node)
    node.visit(order)
    # libcst passes by a field that is None in two kinds of nodes: there it is the last.
    every = [field.name for field in dataclasses.fields(node)]
    return tuple(name for name in dict.fromkeys([*order.names, *every]) if not is_writing(name))


def _function(module: cst.Module) -> cst.FunctionDef:
    """The one function in the one class of a module that `_parse_method` gives."""
    holder = module.body[0]
    assert isinstance(holder, cst.ClassDef)
    function = holder.body.body[0]
    assert isinstance(function, cst.FunctionDef)
    return function


def _too_deep(at: Location) -> PatchgenError:
    """The error for code that libcst could not read without overflowing its stack."""
    what = (
        "an edit of a method that is nested too deeply, "
        f"beyond {_MOST_BRACKETS} brackets or {_MOST_LEVELS} levels"
    )
    return PatchgenError("PG308", at, what, "override the method")


def _count_brackets(text: str) -> int:
    """How many brackets are open at once at most, or a number that is no smaller."""
    # No more can be open than there are.
    every = sum(map(text.count, "([{"))
    if every <= _MOST_BRACKETS:
        return every
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
        nodes = [child for node in nodes for child in children(node)]
    return levels
