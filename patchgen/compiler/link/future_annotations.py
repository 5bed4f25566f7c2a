"""Annotations of files with `from __future__ import annotations` in an output with other code.

    from __future__ import annotations              (no such import)

    def scale(x: Tensor, by: int = 2): ...          def scale(x: "Tensor", by: "int" = 2): ...

The import makes strings of every annotation in a file.  Where all annotations of an output come
from files that have it, the output has it; where none does, it has not.  Else each annotation of
those files is written as the string that it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.compiler.plan.model import Edit, RewrittenBlock
from patchgen.syntax.blocks import ModuleIndex

_EDITS = "patchgen.edits"  # whose annotations are instructions, and stand in no output
_PARENT = "__parent_"  # a class that is merged away, and has no name in the output


def has_future_annotations(index: ModuleIndex) -> bool:
    """Whether the file has `from __future__ import annotations`."""
    return bool(index.blocks) and index.blocks[0].lazy_annotations


def has_annotations(text: str) -> bool:
    """Whether anything in `text` has an annotation that Python keeps."""
    return any(True for _ in _annotations([ast.parse(text)]))


def stringify_annotations(piece: RewrittenBlock) -> RewrittenBlock:
    """`piece` with each of its annotations as the string that Python makes of it."""
    found = [node for node in _annotations([ast.parse(piece.text)]) if not _says_more(node, piece)]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        piece = _spelled(piece, node)
    return piece


def _annotations(nodes: Iterable[ast.AST], in_function: bool = False) -> Iterator[ast.expr]:
    """The annotations that Python keeps: not those of a function's local names."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _annotations([node.args], in_function)
                if node.returns is not None:
                    yield node.returns
                yield from _annotations(node.body, in_function=True)
            case ast.ClassDef():
                yield from _annotations(node.body)
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.AnnAssign():
                if not in_function:
                    yield node.annotation
            case _:
                yield from _annotations(ast.iter_child_nodes(node), in_function)


def _says_more(annotation: ast.expr, piece: RewrittenBlock) -> bool:
    """Whether `annotation` is read by patchgen itself: `gate: Hole`, or a parent that is merged."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    homes = {piece.dependencies[name].module for name in names if name in piece.dependencies}
    return _EDITS in homes or any(name.startswith(_PARENT) for name in names)


def _spelled(piece: RewrittenBlock, node: ast.expr) -> RewrittenBlock:
    text = repr(ast.unparse(node))
    first, last = node.lineno, node.end_lineno or node.lineno
    lines = piece.text.split("\n")
    start = _column(lines[first - 1], node.col_offset)
    end = _column(lines[last - 1], node.end_col_offset or 0)
    if first == last:
        return _replaced(piece, first, start, end, text)
    # Every line keeps its place.
    piece = _replaced(piece, last, 0, end, ")")
    for line in range(first + 1, last):
        piece = _replaced(piece, line, 0, len(lines[line - 1]), "")
    return _replaced(piece, first, start, len(lines[first - 1]), f"({text}")


def _column(line: str, byte_column: int) -> int:
    return len(line.encode()[:byte_column].decode())


def _replaced(piece: RewrittenBlock, line: int, start: int, end: int, new: str) -> RewrittenBlock:
    """`piece` with the characters `start` to `end` of a line replaced; positions stay known."""
    lines = piece.text.split("\n")
    written = lines[line - 1]
    lines[line - 1] = written[:start] + new + written[end:]
    first, last = (piece.at(line, column).column - 1 for column in (start, end))
    kept = [e for e in piece.edits if e.line != line or not first <= e.column < last]
    kept.append(Edit(line, first, " " * (last - first), new))
    kept.sort(key=lambda edit: (edit.line, edit.column))
    return replace(piece, text="\n".join(lines), edits=tuple(kept))
