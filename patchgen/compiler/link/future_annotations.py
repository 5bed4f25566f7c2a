"""Write annotations as strings where `from __future__ import annotations` made them so.

    from __future__ import annotations              (no such import)

    def scale(x: Tensor, by: int = 2): ...    ->    def scale(x: "Tensor", by: "int" = 2): ...

The import makes strings of every annotation in a file.  An output whose annotations all come from
files with it has it too, and one where none does has not.  In all other outputs, the annotations of
those files become the strings that they are.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.compiler.plan.model import Edit, RewrittenBlock
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.trees import names_within, parse_once, position_of

# Annotations with names of this module are instructions to patchgen, and stand in no output.
_EDITS = "patchgen.edits"
# The placeholder of a parent that is merged, and has no name in the output.
_PARENT = "__parent_"


def has_future_annotations(index: ModuleIndex) -> bool:
    """Whether the file has `from __future__ import annotations`."""
    return bool(index.blocks) and index.blocks[0].lazy_annotations


@functools.lru_cache(maxsize=4096)  # of each block of a parent, for each variant of it
def has_annotations(text: str) -> bool:
    """Whether anything in `text` has an annotation that Python keeps."""
    return any(True for _ in _find_annotations([parse_once(text)]))


def stringify_annotations(rewritten: RewrittenBlock) -> RewrittenBlock:
    """`rewritten` with each of its annotations as the string that Python makes of it."""
    found = _find_annotations([parse_once(rewritten.text)])
    ours = [node for node in found if not _is_read_by_patchgen(node, rewritten)]
    # From the last to the first, so that the positions of the others stay true.
    for node in sorted(ours, key=position_of, reverse=True):
        rewritten = _stringify(rewritten, node)
    return rewritten


def _find_annotations(nodes: Iterable[ast.AST], in_function: bool = False) -> Iterator[ast.expr]:
    """The annotations that Python keeps: not those of a function's local names."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _find_annotations([node.args], in_function)
                if node.returns is not None:
                    yield node.returns
                yield from _find_annotations(node.body, in_function=True)
            case ast.ClassDef():
                yield from _find_annotations(node.body)
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.AnnAssign():
                if not in_function:
                    yield node.annotation
            case _:
                yield from _find_annotations(ast.iter_child_nodes(node), in_function)


def _is_read_by_patchgen(annotation: ast.expr, rewritten: RewrittenBlock) -> bool:
    """Whether patchgen itself reads `annotation`: `gate: Hole`, or a parent that is merged."""
    for name in names_within(annotation):
        if name.id.startswith(_PARENT):
            return True
        symbol = rewritten.dependencies.get(name.id)
        if symbol is not None and symbol.module == _EDITS:
            return True
    return False


def _stringify(rewritten: RewrittenBlock, node: ast.expr) -> RewrittenBlock:
    """`rewritten` with one annotation as a string; no line is added or removed."""
    text = repr(ast.unparse(node))
    first, last = node.lineno, node.end_lineno or node.lineno
    lines = rewritten.text.split("\n")
    start = _count_characters(lines[first - 1], node.col_offset)
    end = _count_characters(lines[last - 1], node.end_col_offset or 0)
    if first == last:
        return _replace_on_line(rewritten, first, start, end, text)
    # Lines keep their numbers: the string stands in brackets that end on the last line.
    rewritten = _replace_on_line(rewritten, last, 0, end, ")")
    for line in range(first + 1, last):
        rewritten = _replace_on_line(rewritten, line, 0, len(lines[line - 1]), "")
    return _replace_on_line(rewritten, first, start, len(lines[first - 1]), f"({text}")


def _count_characters(line: str, byte_column: int) -> int:
    return len(line.encode()[:byte_column].decode())


def _replace_on_line(
    rewritten: RewrittenBlock, line: int, start: int, end: int, new: str
) -> RewrittenBlock:
    """`rewritten` with the characters `start` to `end` of a line replaced; positions stay known."""
    lines = rewritten.text.split("\n")
    written = lines[line - 1]
    lines[line - 1] = written[:start] + new + written[end:]
    # Edits count the columns of the original line.
    first = rewritten.at(line, start).column - 1
    last = rewritten.at(line, end).column - 1
    # The new edit replaces those inside it.
    edits = [each for each in rewritten.edits if not _lies_within(each, line, first, last)]
    edits.append(Edit(line, first, " " * (last - first), new))
    edits.sort(key=lambda edit: (edit.line, edit.column))
    return replace(rewritten, text="\n".join(lines), edits=tuple(edits))


def _lies_within(edit: Edit, line: int, first: int, last: int) -> bool:
    return edit.line == line and first <= edit.column < last
