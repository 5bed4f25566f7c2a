"""Number the names of a tree, so that each name of an edited method tells where it came from.

`x = x + scale` becomes `_n1_x = _n2_x + _n3_scale`.  The edit is made in the numbered trees;
without the numbers its text is the edited method, and with them it tells the method's own names
from those of the new code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import libcst as cst

from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.edits.pattern import Bound, Match, Rest, Run
from patchgen.compiler.edits.replacement import Replacement
from patchgen.compiler.edits.tree import Tree, read_children
from patchgen.syntax.meanings import Occurrence, Scope, occurrences

_Node = TypeVar("_Node", bound=cst.CSTNode)
# libcst has these as names.
_CONSTANTS = frozenset({"None", "True", "False"})


@dataclass(frozen=True, slots=True)
class Numbers:
    """How numbers are written: `tag` stands in no text that is numbered."""

    tag: str

    def write(self, number: int, name: str) -> str:
        """`name` with its number."""
        return f"_{self.tag}{number}_{name}"

    def remove(self, text: str) -> str:
        """`text` without numbers."""
        return re.sub(rf"_{self.tag}\d+_", "", text)

    def read(self, name: str) -> int | None:
        """The number of `name`; None where it has none."""
        found = re.match(rf"_{self.tag}(\d+)_", name)
        return int(found.group(1)) if found else None


def make_numbers(texts: Sequence[str]) -> Numbers:
    """Numbers that can be told from everything in `texts`."""
    # A longer tag is found quickly, as texts are finite.
    tag = "n"
    while any(re.search(rf"_{tag}\d", text) for text in texts):
        tag += "n"
    return Numbers(tag)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A numbered copy of a tree; `copies` has the copy of each node, by the node's identity."""

    tree: Tree
    copies: Mapping[int, cst.CSTNode]

    def copy(self, node: _Node) -> _Node:
        """The copy of `node`."""
        copied = self.copies[id(node)]
        assert isinstance(copied, type(node))
        return copied

    def replacement(self, change: Replacement, method: Numbered) -> Replacement:
        """`change`, whose new code is of this tree, in the numbered `method`."""
        bound = change.match.bound
        holes = {name: node and method.copy(node) for name, node in bound.holes.items()}
        rest = bound.rest and method._rest(bound.rest)
        run = bound.run and method._run(bound.run)
        place = change.match.place
        place = method._run(place) if isinstance(place, Run) else method.copy(place)
        return Replacement(Match(place, Bound(holes, rest, run)), self.copy(change.new))

    def _rest(self, rest: Rest) -> Rest:
        """The same arguments in the copy."""
        return Rest(self.copy(rest.call), tuple(self.copy(argument) for argument in rest.arguments))

    def _run(self, run: Run) -> Run:
        """The same statements in the copy."""
        suite = self.copies.get(id(run.suite))
        # The suite was made for the search; its statements have copies.
        if suite is None:  # it holds an `elif`, and is no node of the tree
            suite = run.suite.with_changes(body=[self.copy(node) for node in run.suite.body])
        assert isinstance(suite, cst.BaseSuite)
        return replace(run, suite=suite)


class _Numbering:
    """Copies nodes with numbers from `first` on; `copies` has each copy by the node's identity."""

    def __init__(self, numbers: Numbers, first: int, kept: frozenset[str]) -> None:
        self.numbers, self.next, self.kept = numbers, first, kept
        self.copies: dict[int, cst.CSTNode] = {}

    def copy(self, node: cst.CSTNode) -> cst.CSTNode:
        """`node` with numbers; what holds no name, such as a constant, is not copied."""
        changes: dict[str, object] = {}
        for field, value in read_children(node):
            if isinstance(value, tuple):
                items = tuple(self.copy(item) for item in value)
                if any(new is not old for new, old in zip(items, value, strict=True)):
                    changes[field] = items
            else:
                new = self.copy(value)
                if new is not value:
                    changes[field] = new
        if type(node) is cst.Name:
            name = node.value
            if name not in _CONSTANTS and name not in self.kept:
                changes["value"] = self.numbers.write(self.next, name)
                self.next += 1
        copied = node.with_changes(**changes) if changes else node
        # Matches refer to the original nodes, the numbered tree has others.
        self.copies[id(node)] = copied
        return copied


def number_tree(
    tree: Tree, numbers: Numbers, first: int, kept: frozenset[str] = frozenset()
) -> tuple[Numbered, int]:
    """Copy `tree` with numbers from `first` on; with it comes the number after the last.

    The names that are `kept` get none.
    """
    numbering = _Numbering(numbers, first, kept)
    function = numbering.copy(tree.function)
    assert isinstance(function, cst.FunctionDef)
    spans = {id(copy): tree.spans[original] for original, copy in numbering.copies.items()}
    nodes = tuple(numbering.copies[id(node)] for node in tree.nodes)
    numbered = Tree(tree.replace_function(function), function, nodes, spans)
    return Numbered(numbered, numbering.copies), numbering.next


@dataclass(frozen=True, slots=True)
class Named:
    """A name in code with numbers; `number` is None where it has none.

    `scope` labels the scope that binds it: "" is the function itself, None what is outside of it,
    anything else a name in the scope.
    """

    name: str
    number: int | None
    scope: str | None
    is_read: bool
    node: ast.AST

    @property
    def is_inner(self) -> bool:
        """Whether a scope inside the function binds it."""
        return bool(self.scope)


def read_names(text: str, numbers: Numbers) -> tuple[Named, ...]:
    """The names in the numbered function `text`, with the nodes of the text without numbers."""
    with_numbers = _read_occurrences(text)
    without = _read_occurrences(numbers.remove(text))
    return tuple(_compare(with_numbers, without, numbers))


def read_numbered(text: str, numbers: Numbers) -> dict[int, Named]:
    """The names of `text` that have numbers."""
    return {name.number: name for name in read_names(text, numbers) if name.number is not None}


def _read_occurrences(text: str) -> tuple[Occurrence, ...]:
    function = parse_fragment(text).nodes[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    return occurrences(function)


def _compare(
    with_numbers: Sequence[Occurrence], without: Sequence[Occurrence], numbers: Numbers
) -> Iterator[Named]:
    """Each name with its number, and with its node in the text without numbers."""
    # Both texts have one shape, so that occurrences correspond.
    for marked, plain in zip(with_numbers, without, strict=True):
        scope = None if plain.scope is None else _read_label(plain.scope, with_numbers)
        yield Named(plain.name, numbers.read(marked.name), scope, plain.is_read, plain.node)


def _read_label(scope: Scope, with_numbers: Sequence[Occurrence]) -> str:
    return with_numbers[scope.label].name if scope.outer is not None else ""
