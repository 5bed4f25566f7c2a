"""Map each generated line to the line of the file that it came from.

    modeling_tiny.py                       origin

    class TinyMLP(nn.Module):              modular_tiny.py:3
        def __init__(self, config):        modeling_llama.py:171
            super().__init__()             modeling_llama.py:172

The formatter moves lines, and merging mixes files.  Lines are therefore matched by their text,
within the block that they stand in: first with the modular file's text, then with the parents'.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
from collections.abc import Iterable, Iterator

from patchgen.compiler.emit.parsed import parse_output
from patchgen.compiler.flat import LineOrigin
from patchgen.compiler.link.flatblock import FlatBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.kept import recall
from patchgen.syntax.trees import statements_within

_WORD = re.compile(r"\w+")
# What the class is called, in a private name that is written out: `_Base` in `_Base__limit`.
_MANGLED = re.compile(r"(?<!\w)_[^\W_]\w*?(?=__\w)")

# The file and the line that generated lines came from, by the number of the generated line.
_Origins = dict[int, tuple[str, int]]


def map_lines(text: str, blocks: Iterable[FlatBlock]) -> tuple[LineOrigin, ...]:
    """The origin of every line of `text` that stands in one of `blocks`, as ranges."""
    blocks = tuple(blocks)
    kept = recall("lines", text, [_describe(block) for block in blocks])
    if kept.answer is not None:
        return tuple(LineOrigin(*origin) for origin in kept.answer)
    origins = _map_lines(text, blocks)
    kept.keep([(part.first, part.last, part.path, part.line) for part in origins])
    return origins


def _describe(block: FlatBlock) -> list[object]:
    """Everything of `block` that decides about the origins of its lines."""
    stands_for = block.text if block.aside else block.defines[:1]
    parts = [[part.source.path, part.first, part.text] for part in block.rewritten]
    return [block.aside, stands_for, parts]


def _map_lines(text: str, blocks: Iterable[FlatBlock]) -> tuple[LineOrigin, ...]:
    """As `map_lines`, computed anew."""
    by_name: dict[str, list[FlatBlock]] = {}
    for block in blocks:
        name = _find_defined(block)
        if name:
            by_name.setdefault(name, []).append(block)
    found: list[tuple[int, str, int]] = []
    for part in parse_output(text).parts:
        lines = part.text.split("\n")
        for node in part.tree.body:
            candidates = by_name.get(_find_name(node))
            if candidates:
                # Statements of one name stand in the order of their blocks.
                origins = _match(lines, node, candidates.pop(0))
                found += [(part.locate(line), *origins[line]) for line in sorted(origins)]
    return tuple(_join_ranges(found))


def _find_defined(block: FlatBlock) -> str:
    """The name in the first statement of `block`.

    A parent that was put aside keeps its name in the class statement, and defines another one.
    """
    if block.aside:
        return _find_name(ast.parse(block.text).body[0])
    # `os.environ["X"] = "1"` defines nothing.
    if not block.defines:
        return ""
    return block.defines[0]


def _find_name(node: ast.stmt) -> str:
    """The name that a statement binds first; "" for all but definitions and assignments."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _match(lines: list[str], node: ast.stmt, block: FlatBlock) -> _Origins:
    """The origins of the lines of one statement among `lines`."""
    first, last = first_line(node), node.end_lineno or node.lineno
    generated = "\n".join(lines[first - 1 : last])
    origins: _Origins = {}
    # The blocks are in the order of the MRO: what several of them have is the nearest one's.
    for rewritten in block.rewritten:
        for ours, theirs in _align(generated, rewritten.text):
            origins.setdefault(first + ours, (rewritten.source.path, rewritten.first + theirs))
    _complete(node, lines, origins)
    return origins


# Variants of one parent have most blocks in common.
@functools.lru_cache(maxsize=4096)
def _align(generated: str, original: str) -> tuple[tuple[int, int], ...]:
    """The lines that are equal but for indentation and the spelling of private names.

    Each is (offset in `generated`, offset in `original`).
    """
    ours = [_normalize(line) for line in generated.split("\n")]
    if generated == original.rstrip("\n"):
        # difflib would match each line with itself, from the first that may begin a match on.
        start = next((n for n, line in enumerate(ours) if _has_words(line)), len(ours))
        return tuple((n, n) for n in range(start, len(ours)) if ours[n])
    theirs = [_normalize(line) for line in original.split("\n")]
    found: list[tuple[int, int]] = []
    matcher = difflib.SequenceMatcher(None, ours, _make_unique(theirs), autojunk=False)
    for start, their_start, size in matcher.get_matching_blocks():
        # The last block is always empty.
        if not size:
            continue
        size += _count_equal(ours[start + size :], theirs[their_start + size :])
        for offset in range(size):
            if ours[start + offset]:
                found.append((start + offset, their_start + offset))
    return tuple(found)


def _normalize(line: str) -> str:
    """`line` as it is compared."""
    line = line.strip()
    # Few lines have a private name, and the search takes time.
    if "__" not in line:
        return line
    return _MANGLED.sub("", line)


def _make_unique(lines: list[str]) -> list[str]:
    """`lines`, where one with a bracket only has a text that no other line has.

    Such a line is alike everywhere.  It may continue a match, but if it began one, it would prevent
    better ones.
    """
    return [line if _has_words(line) else f"\0{number}" for number, line in enumerate(lines)]


def _has_words(line: str) -> bool:
    """Whether `line` is more than a bracket or a single word."""
    return len(_WORD.findall(line)) > 1


def _count_equal(ours: list[str], theirs: list[str]) -> int:
    """How many lines at the beginning of both are equal."""
    count = 0
    for our_line, their_line in zip(ours, theirs, strict=False):
        if our_line != their_line:
            break
        count += 1
    return count


def _complete(node: ast.stmt, lines: list[str], origins: _Origins) -> None:
    """Give lines that the formatter broke apart the origin of the statement they belong to."""
    for statement in _find_plain_statements(node):
        if statement.lineno not in origins:
            continue
        for number in range(statement.lineno + 1, _find_head_end(statement) + 1):
            is_blank = not lines[number - 1].strip()
            if not is_blank:
                origins.setdefault(number, origins[statement.lineno])


def _find_plain_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements in `node`; definitions are left out, as their members have origins."""
    for inner in statements_within(node):
        is_definition = isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(inner, ast.stmt) and not is_definition:
            yield inner


def _find_head_end(statement: ast.stmt) -> int:
    """The last line of a statement without its body."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return int(body[0].lineno) - 1
    return statement.end_lineno or statement.lineno


def _join_ranges(found: Iterable[tuple[int, str, int]]) -> Iterator[LineOrigin]:
    """Join (generated line, path, line there) of neighbours into ranges."""
    current: LineOrigin | None = None
    for line, path, origin in found:
        if current is not None and _continues(current, line, path, origin):
            current = LineOrigin(current.first, line, path, current.line)
            continue
        if current is not None:
            yield current
        current = LineOrigin(line, line, path, origin)
    if current is not None:
        yield current


def _continues(current: LineOrigin, line: int, path: str, origin: int) -> bool:
    """Whether a line follows the range `current` both in the output and in its file."""
    if line != current.last + 1 or path != current.path:
        return False
    return origin - current.line == line - current.first
