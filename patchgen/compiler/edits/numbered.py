"""Number the names of a tree, so that each name of an edited method tells where it came from.

`x = x + scale` becomes `_n1_x = _n2_x + _n3_scale`.  The edit is made in the numbered trees;
without the numbers its text is the edited method, and with them it tells the method's own names
from those of the new code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.edits.tree import Tree
from patchgen.syntax.meanings import Occurrence, Scope, occurrences

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


def number_names(
    tree: Tree, numbers: Numbers, first: int, kept: frozenset[str] = frozenset()
) -> int:
    """Number the names of `tree` in place, from `first` on; gives the number after the last.

    The names that are `kept` get none.
    """
    following = first
    for node in tree.nodes:
        if type(node) is cst.Name and node.value not in _CONSTANTS | kept:
            # libcst's nodes are frozen, but `tree` belongs to one edit.  A copy of it would take
            # half as long as reading it, and every match would have to be found again there.
            object.__setattr__(node, "value", numbers.write(following, node.value))
            following += 1
    return following


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
