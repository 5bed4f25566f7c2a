"""The `__private` names of a class whose name changes, written out as Python would have mangled them.

Python writes `_Own__x` for `__x` in the body of a class `Own`.  In a flat class of another name it would write
something else, so the name is spelled out, which Python leaves alone.  Equal class names need nothing.
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
from patchgen.errors import PatchgenError

Place = tuple[int, int]  # a line from 1 and a character column from 0


def write_out_private_names(piece: RewrittenBlock, own: str, flat: str) -> RewrittenBlock:
    """`piece` with the private names of the class `own` spelled out for a class `flat`.

    Raises PatchgenError PG241 for one inside an f-string that has it as text as well.
    """
    prefix = own.lstrip("_")
    if prefix == flat.lstrip("_") or not prefix or "__" not in piece.text:
        return piece
    found = [*_in_code(piece.text), *_in_fstrings(piece)]
    if not found:
        return piece
    lines = list(split_lines(piece.text))
    edits = list(piece.edits)
    for (line, column), name in sorted(set(found), reverse=True):
        written = f"_{prefix}{name}"
        original = piece.at(line, column).column - 1
        edits.append(Edit(line, original, name, written))
        text = lines[line - 1]
        lines[line - 1] = text[:column] + written + text[column + len(name) :]
    ordered = tuple(sorted(edits, key=lambda edit: (edit.line, edit.column)))
    return replace(piece, text="".join(lines), edits=ordered)


def is_private(name: str) -> bool:
    """Whether Python mangles `name` in a class body."""
    return name.startswith("__") and not name.endswith("__") and "." not in name


def _in_code(text: str) -> Iterator[tuple[Place, str]]:
    tree = ast.parse(text)
    outer = tree.body[0]
    assert isinstance(outer, ast.ClassDef)
    nested = [
        (n.body[0].lineno, n.end_lineno or 0)
        for n in ast.walk(tree)
        if isinstance(n, ast.ClassDef) and n != outer
    ]
    lines = split_lines(text)
    # The name of a keyword argument is not mangled.
    keywords = {
        (n.lineno, len(lines[n.lineno - 1].encode()[: n.col_offset].decode()))
        for n in ast.walk(tree)
        if isinstance(n, ast.keyword)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        inside = any(first <= token.start[0] <= last for first, last in nested)
        if (
            token.type == tokenize.NAME
            and is_private(token.string)
            and not inside
            and token.start not in keywords
        ):
            yield token.start, token.string


def _in_fstrings(piece: RewrittenBlock) -> Iterator[tuple[Place, str]]:
    """Private names inside f-strings, which are one token before Python 3.12; the rule is the same behind it."""
    lines = split_lines(piece.text)
    for node in ast.walk(ast.parse(piece.text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        names = {
            n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and is_private(n.attr)
        }
        names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and is_private(n.id)}
        literal = "".join(
            n.value
            for n in ast.walk(node)
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )
        for name in sorted(names):
            if name in literal:
                what = f"{name} stands in an f-string both as a name and as text"
                raise PatchgenError(
                    "PG241", piece.at(node.lineno, node.col_offset), what, "bind it to a name first"
                )
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                text = lines[line - 1]
                for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text):
                    yield (line, found.start()), name
