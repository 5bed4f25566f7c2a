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
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from patchgen.compiler.emit.parsed import parse_output
from patchgen.compiler.flat import LineOrigin
from patchgen.compiler.link.flatblock import FlatBlock
from patchgen.syntax.blocks import first_line
from patchgen.syntax.trees import Function, find_head_end, statements_within

_WORD = re.compile(r"\w+")
# What the class is called, in a private name that is written out: `_Base` in `_Base__limit`.
_MANGLED = re.compile(r"(?<!\w)_[^\W_]\w*?(?=__\w)")


def map_lines(text: str, blocks: Sequence[FlatBlock]) -> tuple[LineOrigin, ...]:
    """The origin of every line of `text` that stands in one of `blocks`, as ranges."""
    return tuple(_join_ranges(_find_origins(text, blocks)))


def _find_origins(text: str, blocks: Sequence[FlatBlock]) -> Iterator[tuple[int, str, int]]:
    """The lines of `text` that have an origin, in order, each with its file and its line there."""
    by_name: dict[str, list[FlatBlock]] = {}
    for block in blocks:
        # `os.environ["X"] = "1"` defines nothing.
        defined = block.defines
        # A parent that was put aside keeps its name in the class statement, and defines another.
        if block.aside:
            defined = (_find_name(ast.parse(block.text).body[0]),)
        for name in defined[:1]:
            by_name.setdefault(name, []).append(block)
    for part in parse_output(text).parts:
        lines = part.text.split("\n")
        for node in part.tree.body:
            candidates = by_name.get(_find_name(node))
            if candidates:
                # Statements of one name stand in the order of their blocks.
                origins = _match(lines, node, candidates.pop(0))
                for line in sorted(origins):
                    yield part.locate(line), *origins[line]


def _find_name(node: ast.stmt) -> str:
    """The name that a statement binds first; "" for all but definitions and assignments."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _match(lines: list[str], node: ast.stmt, block: FlatBlock) -> dict[int, tuple[str, int]]:
    """The origins, as (file, line), of the lines of one statement among `lines`."""
    first = first_line(node)
    generated = "\n".join(lines[first - 1 : node.end_lineno])
    origins: dict[int, tuple[str, int]] = {}
    # The blocks are in the order of the MRO: what several of them have is the nearest one's.
    for rewritten in block.rewritten:
        path = rewritten.source.path
        for ours, theirs in _align(generated, rewritten.text):
            origins.setdefault(first + ours, (path, rewritten.first + theirs))
    # Lines that the formatter broke apart come from where the statement they belong to does.
    for statement in statements_within(node):
        # The members of a definition have origins of their own, and so has the body of a loop.
        is_definition = isinstance(statement, ast.ClassDef | Function)
        if not isinstance(statement, ast.stmt) or is_definition:
            continue
        start = statement.lineno
        if start not in origins:
            continue
        last = find_head_end(statement)
        for number in range(start + 1, last + 1):
            if lines[number - 1].strip():
                origins.setdefault(number, origins[start])
    return origins


# Variants of one parent have most blocks in common.
@functools.lru_cache(maxsize=4096)
def _align(generated: str, original: str) -> tuple[tuple[int, int], ...]:
    """The lines that are equal but for indentation, quotes and the spelling of private names.

    Each is (offset in `generated`, offset in `original`).
    """
    ours = [_normalize(line) for line in generated.split("\n")]
    if generated == original.rstrip("\n"):
        # difflib would match each line with itself, from the first that may begin a match on.
        has_begun = False
        same = []
        for number, line in enumerate(ours):
            has_begun = has_begun or _has_words(line)
            if has_begun and line:
                same.append((number, number))
        return tuple(same)
    theirs = [_normalize(line) for line in original.split("\n")]
    # A line with a bracket only is alike everywhere.  It may continue a match, but if it began one,
    # it would prevent better ones: here, it has a text that no other line has.
    unique = [line if _has_words(line) else f"\0{number}" for number, line in enumerate(theirs)]
    pairs = []
    matcher = difflib.SequenceMatcher(None, ours, unique, autojunk=False)
    # The last block is always empty.
    for start, their_start, size in matcher.get_matching_blocks()[:-1]:
        matched = itertools.zip_longest(ours[start:], theirs[their_start:])
        for offset, (line, their_line) in enumerate(matched):
            if offset >= size and line != their_line:
                break
            if line:
                pairs.append((start + offset, their_start + offset))
    return tuple(pairs)


def _normalize(line: str) -> str:
    line = line.strip().replace("'", '"')
    # Few lines have a private name, and the search takes time.
    return _MANGLED.sub("", line) if "__" in line else line


def _has_words(line: str) -> bool:
    """Whether `line` is more than a bracket or a single word."""
    return len(_WORD.findall(line)) > 1


def _join_ranges(origins: Iterable[tuple[int, str, int]]) -> list[LineOrigin]:
    ranges: list[LineOrigin] = []
    for line, path, origin in origins:
        if ranges:
            above = ranges[-1]
            next_line = above.line + line - above.first
            if (line, path, origin) == (above.last + 1, above.path, next_line):
                ranges[-1] = LineOrigin(above.first, line, path, above.line)
                continue
        ranges.append(LineOrigin(line, line, path, origin))
    return ranges
