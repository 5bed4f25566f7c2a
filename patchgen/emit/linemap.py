"""From which line of which file each generated line came.

The formatter moves lines, and merging mixes files, so lines are matched by their text within the block that they stand
in: first against the modular file's piece, then against the parents'.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator

from patchgen.flat import LineOrigin
from patchgen.link.flatblock import FlatBlock
from patchgen.plan.model import Piece
from patchgen.source.blocks import first_line


def line_map(text: str, blocks: Iterable[FlatBlock]) -> tuple[LineOrigin, ...]:
    """The origin of every line of `text` that stands in one of `blocks`, as ranges."""
    by_name: dict[str, list[FlatBlock]] = {}
    for block in blocks:
        for name in block.defines[:1]:
            by_name.setdefault(name, []).append(block)
    lines = text.split("\n")
    found: list[tuple[int, str, int]] = []
    for node in ast.parse(text).body:
        name = _name(node)
        if by_name.get(name):
            block = by_name[name].pop(0)
            found += _match(lines, first_line(node), node.end_lineno or node.lineno, block)
    return tuple(_ranges(found))


def _name(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _match(lines: list[str], first: int, last: int, block: FlatBlock) -> list[tuple[int, str, int]]:
    origins: dict[int, tuple[int, str, int]] = {}
    for piece in block.pieces:
        for line, origin in _aligned(lines[first - 1 : last], piece):
            origins.setdefault(first + line, (first + line, piece.source.path, origin))
    return [origins[line] for line in sorted(origins)]


def _aligned(generated: list[str], piece: Piece) -> Iterator[tuple[int, int]]:
    """(offset in `generated`, line of the piece's file) of lines that are equal but for indentation."""
    ours = [line.strip() for line in generated]
    theirs = [line.strip() for line in piece.text.split("\n")]
    for tag, a, b, c, _ in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((a + k, piece.first + c + k) for k in range(b - a) if ours[a + k])


def _ranges(found: Iterable[tuple[int, str, int]]) -> Iterator[LineOrigin]:
    current: LineOrigin | None = None
    for line, path, origin in found:
        if (
            current
            and path == current.path
            and line == current.last + 1
            and origin - current.line == line - current.first
        ):
            current = LineOrigin(current.first, line, path, current.line)
            continue
        if current:
            yield current
        current = LineOrigin(line, line, path, origin)
    if current:
        yield current
