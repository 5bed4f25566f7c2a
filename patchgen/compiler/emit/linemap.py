"""From which line of which file each generated line came.

The formatter moves lines, and merging mixes files, so lines are matched by their text within the block that they stand
in: first against the modular file's piece, then against the parents'.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator

from patchgen.compiler.flat import LineOrigin
from patchgen.compiler.link.flatblock import FlatBlock
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.syntax.blocks import first_line

_WORD = re.compile(r"\w+")


def map_lines(text: str, blocks: Iterable[FlatBlock]) -> tuple[LineOrigin, ...]:
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
            found += _match(lines, node, block)
    return tuple(_ranges(found))


def _name(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _match(lines: list[str], node: ast.stmt, block: FlatBlock) -> list[tuple[int, str, int]]:
    """(generated line, path, line there) for the lines of one statement of the module."""
    first, last = first_line(node), node.end_lineno or node.lineno
    origins: dict[int, tuple[int, str, int]] = {}
    for piece in block.pieces:
        for line, origin in _aligned(lines[first - 1 : last], piece):
            origins.setdefault(first + line, (first + line, piece.source.path, origin))
    _complete(node, lines, origins)
    return [origins[line] for line in sorted(origins)]


def _aligned(generated: list[str], piece: RewrittenBlock) -> Iterator[tuple[int, int]]:
    """(offset in `generated`, line of the piece's file) of lines that are equal but for indentation."""
    ours = [line.strip() for line in generated]
    theirs = [line.strip() for line in piece.text.split("\n")]
    # A bracket is alike everywhere: it may continue a match but not begin one, or it would bar better ones.
    telling = [line if len(_WORD.findall(line)) > 1 else f"\0{k}" for k, line in enumerate(theirs)]
    for a, b, size in difflib.SequenceMatcher(
        None, ours, telling, autojunk=False
    ).get_matching_blocks():
        while (
            size
            and a + size < len(ours)
            and b + size < len(theirs)
            and ours[a + size] == theirs[b + size]
        ):
            size += 1
        yield from ((a + k, piece.first + b + k) for k in range(size) if ours[a + k])


def _complete(node: ast.stmt, lines: list[str], origins: dict[int, tuple[int, str, int]]) -> None:
    """Give lines that the formatter broke apart the origin of the statement that they belong to."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.stmt) or isinstance(
            inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            continue
        known = origins.get(inner.lineno)
        body = getattr(inner, "body", None)
        end = (
            body[0].lineno - 1
            if isinstance(body, list) and body
            else inner.end_lineno or inner.lineno
        )
        if known is None:
            continue
        for line in range(inner.lineno + 1, end + 1):
            if line not in origins and lines[line - 1].strip():
                origins[line] = (line, known[1], known[2])


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
