"""Read a method as libcst does: code, white space and comments in one tree, lossless.

In: a statement of a class body that is a function.  Out: its `Tree`, which gives the text back byte
for byte.  Only classes with edits, and `patchgen lint`, get here: importing libcst is slow.

    x = f( y )  # twice         `ast` has the names and the call; this tree also has the spaces and
                                the comment, which stay where an edit does not touch them
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from patchgen.compiler.merge.text import INDENT, parse_fragment
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import children

_HEAD = "class _:\n"
_CONFIG = cst.PartialParserConfig(default_indent=INDENT, default_newline="\n")
# libcst's parser recurses in native code, where no exception stops it.  These limits are far below
# those at which it overflows its stack.
_MOST_BRACKETS = 60
_MOST_LEVELS = 200


@dataclass(frozen=True)
class Tree:
    """A module with a class whose only statement is a function."""

    module: cst.Module

    @property
    def function(self) -> cst.FunctionDef:
        holder = cst.ensure_type(self.module.body[0], cst.ClassDef)
        return cst.ensure_type(holder.body.body[0], cst.FunctionDef)

    @property
    def text(self) -> str:
        """The text of the function."""
        return self.module.code.removeprefix(_HEAD)

    @functools.cached_property
    def positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        """Where each node stands; line 1 is that of the class, columns are characters."""
        return MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(PositionProvider)


def read_tree(text: str, at: Location) -> Tree:
    """The tree of `text`, a function indented as in a class body.

    Raises PatchgenError PG308 at `at` where libcst cannot read it.
    """
    # Checked before parsing: an overflow would end the process.
    if _count_brackets(text) > _MOST_BRACKETS or _count_levels(text) > _MOST_LEVELS:
        what = (
            "an edit of a method that is nested too deeply, "
            f"beyond {_MOST_BRACKETS} brackets or {_MOST_LEVELS} levels"
        )
        raise PatchgenError("PG308", at, what, "override the method")
    try:
        return Tree(cst.parse_module(f"{_HEAD}{text}", _CONFIG))
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
