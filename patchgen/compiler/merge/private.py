"""Write out the `__private` names of a class whose name changes, as Python would mangle them.

Python reads `__x` in the body of a class `Own` as `_Own__x`.  In a flat class of another name it
would read something else, so the name is spelled out, which Python leaves alone:

    class LlamaMLP:                     class LlamaFusedMLP:
        def size(self):                     def size(self):
            return self.__size                  return self._LlamaMLP__size

Classes of equal names need nothing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import replace

from patchgen.compiler.classes.fragment import split_lines
from patchgen.compiler.plan.model import Edit, RewrittenBlock
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.reads import is_private, mangle
from patchgen.syntax.trees import parse_once

Position = tuple[int, int]  # a line from 1 and a character column from 0
_UNDERSCORED = re.compile(r"(?<!\w)__\w+")


def write_out_private_names(block: RewrittenBlock, own: str, flat: str) -> RewrittenBlock:
    """`block` with the private names of the class `own` spelled out for a class `flat`.

    Raises PatchgenError PG241 for one inside an f-string that has it as text as well.
    """
    prefix = own.lstrip("_")
    # Python strips the underscores; a class named `_` mangles nothing.
    if prefix == flat.lstrip("_") or not prefix:
        return block
    # Nearly no class has a private name, and to read tokens takes long.
    if not any(map(is_private, _UNDERSCORED.findall(block.text))):
        return block
    found = [*_find_in_code(block.text), *_find_in_fstrings(block)]
    if not found:
        return block
    lines = list(split_lines(block.text))
    edits = list(block.edits)
    # From the end, so that the columns of names further left stay right.
    for (line, column), name in sorted(set(found), reverse=True):
        written = mangle(name, own)
        original = block.at(line, column).column - 1
        edits.append(Edit(line, original, name, written))
        text = lines[line - 1]
        lines[line - 1] = text[:column] + written + text[column + len(name) :]
    edits.sort(key=lambda edit: (edit.line, edit.column))
    return replace(block, text="".join(lines), edits=tuple(edits))


def _find_in_code(text: str) -> Iterator[tuple[Position, str]]:
    """Private names that are code, with their places; those in f-strings are left out."""
    tree = parse_once(text)
    nested = _find_nested_lines(tree)
    keywords = _find_keywords(tree, text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.NAME or not is_private(token.string):
            continue
        if token.start not in keywords and token.start[0] not in nested:
            yield token.start, token.string


def _find_nested_lines(tree: ast.Module) -> set[int]:
    """The lines of the bodies of nested classes, which mangle by their own names."""
    outer = tree.body[0]
    assert isinstance(outer, ast.ClassDef)
    found: set[int] = set()
    for node in ast.walk(outer):
        if isinstance(node, ast.ClassDef) and node is not outer:
            found.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return found


def _find_keywords(tree: ast.Module, text: str) -> set[Position]:
    """Where keyword arguments begin: their names are not mangled."""
    lines = split_lines(text)
    found: set[Position] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            # The tokenizer counts characters, `ast` bytes.
            before = lines[node.lineno - 1].encode()[: node.col_offset]
            found.add((node.lineno, len(before.decode())))
    return found


def _find_in_fstrings(block: RewrittenBlock) -> Iterator[tuple[Position, str]]:
    """Private names inside f-strings, which are one token before Python 3.12.

    Newer versions get the same rule, so that the output does not depend on the version.
    """
    lines = split_lines(block.text)
    for node in ast.walk(parse_once(block.text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        names, literal = _read_fstring(node)
        for name in sorted(names):
            # A search finds the name and the text alike.
            if name in literal:
                at = block.at(node.lineno, node.col_offset)
                what = f"{name} stands in an f-string both as a name and as text"
                raise PatchgenError("PG241", at, what, "bind it to a name first")
            whole_word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                for found in whole_word.finditer(lines[line - 1]):
                    yield (line, found.start()), name


def _read_fstring(node: ast.JoinedStr) -> tuple[set[str], str]:
    """The private names in the expressions of an f-string, and its text."""
    names: set[str] = set()
    literal = ""
    for part in ast.walk(node):
        match part:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                if is_private(name):
                    names.add(name)
            case ast.Constant(value=str(text)):
                literal += text
    return names, literal
