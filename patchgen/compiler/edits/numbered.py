"""Number the names of a tree, so that each name of an edited method tells where it came from.

`x = x + scale` becomes `_n1_x = _n2_x + _n3_scale`.  The edit is made in the numbered trees;
without the numbers its text is the edited method, and with them it tells the method's own names
from those of the new code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

import libcst as cst

from patchgen.compiler.edits.tree import Tree
from patchgen.compiler.merge.text import parse_fragment
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


def make_numbers(texts: Sequence[str]) -> Numbers:
    """Numbers that can be told from everything in `texts`."""
    # A longer tag is found quickly, as texts are finite.
    tag = "n"
    while any(re.search(rf"_{tag}\d", text) for text in texts):
        tag += "n"
    return Numbers(tag)


def number_names(
    trees: Sequence[tuple[Tree, Sequence[str]]], numbers: Numbers
) -> Mapping[str, str]:
    """Number the names of `trees` in place; gives what each of the new names was before.

    Each tree comes with the names in it that are kept as they are.
    """
    plain: dict[str, str] = {}
    for tree, kept in trees:
        for node in tree.nodes:
            if type(node) is cst.Name and node.value not in _CONSTANTS and node.value not in kept:
                name = numbers.write(len(plain), node.value)
                # As `ast` gives names.
                plain[normalize("NFKC", name)] = normalize("NFKC", node.value)
                # libcst's nodes are frozen, but the tree belongs to one edit.  A copy of it would
                # take half as long as reading it, and each match would have to be found there.
                object.__setattr__(node, "value", name)
    return plain


@dataclass(frozen=True, slots=True)
class Named:
    """A name in code with numbers, as it is without its number and as it is `written`.

    `scope` labels the scope that binds it: "" is the function itself, None what is outside of it,
    anything else a name in the scope.  `place` is its place among all names of the code.
    """

    name: str
    written: str
    scope: str | None
    is_read: bool
    place: int

    @property
    def has_number(self) -> bool:
        """Whether it has a number; only holes have none."""
        return self.written != self.name

    @property
    def is_inner(self) -> bool:
        """Whether a scope inside the function binds it."""
        return bool(self.scope)


def read_names(text: str, plain: Mapping[str, str]) -> tuple[Named, ...]:
    """The names in the numbered function `text`; `plain` has what they are without numbers."""
    function = parse_fragment(text).nodes[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    found = occurrences(function, plain)
    names: list[Named] = []
    for place, one in enumerate(found):
        scope = None if one.scope is None else _read_label(one.scope, found)
        names.append(Named(plain.get(one.name, one.name), one.name, scope, one.is_read, place))
    return tuple(names)


def read_numbered(text: str, plain: Mapping[str, str]) -> dict[str, Named]:
    """The names of `text` that have numbers, as they are written."""
    return {name.written: name for name in read_names(text, plain) if name.has_number}


def _read_label(scope: Scope, found: Sequence[Occurrence]) -> str:
    return found[scope.label].name if scope.outer is not None else ""
