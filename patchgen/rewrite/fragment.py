"""Class-body statements as text, with syntax trees whose positions count from that text.

Facts come from `ast`, changes are made to the text at the positions that `ast` gives: what is not changed stays byte
for byte.  Whoever changes a text asks `same_code` afterwards whether it says what was meant.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from patchgen.source.blocks import first_line

INDENT = "    "
Positioned = ast.expr | ast.stmt | ast.arg | ast.keyword | ast.excepthandler


@dataclass(frozen=True, slots=True)
class Splice:
    """The characters from `start` to `end` of a text become `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Fragment:
    """Statements of a class body: whole lines, as they stand in the class, and their trees."""

    text: str
    nodes: tuple[ast.stmt, ...] = field(compare=False)
    lines: tuple[str, ...] = field(compare=False, repr=False)

    def offset(self, line: int, byte_column: int) -> int:
        """The character offset in the text of a position as `ast` gives it."""
        before = sum(len(text) for text in self.lines[: line - 1])
        return before + self.column(line, byte_column)

    def column(self, line: int, byte_column: int) -> int:
        """The character column, from 0, of a byte column."""
        text = self.lines[line - 1]
        return byte_column if text.isascii() else len(text.encode()[:byte_column].decode(errors="ignore"))

    def span(self, node: Positioned) -> tuple[int, int]:
        """Where the text of `node` begins and ends; parentheses around it are not part of it."""
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self.offset(node.lineno, node.col_offset), end

    def source(self, node: Positioned) -> str:
        """The text of `node`."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """Where the whole lines `first` to `last` begin and end."""
        start = sum(len(text) for text in self.lines[: first - 1])
        return start, start + sum(len(text) for text in self.lines[first - 1 : last])


@functools.lru_cache(maxsize=4096)
def fragment(text: str) -> Fragment:
    """The statements of `text`, which is indented as in a class body."""
    tree = ast.parse(f"class _:\n{text}")
    holder = tree.body[0]
    assert isinstance(holder, ast.ClassDef)
    for node in holder.body:
        ast.increment_lineno(node, -1)
    return Fragment(text, tuple(holder.body), split_lines(text))


def split_lines(text: str) -> tuple[str, ...]:
    """The lines of `text` with their ends; only `\\n` ends a line, as for Python's tokenizer."""
    lines = text.split("\n")
    kept = tuple(f"{line}\n" for line in lines[:-1])
    return (*kept, lines[-1]) if lines[-1] else kept


def splice(text: str, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
    """`text[start:end]` with those of `splices` made that lie inside; a splice inside another one is dropped."""
    end = len(text) if end is None else end
    done: list[str] = []
    at = start
    for change in sorted(set(splices), key=lambda s: (s.start, -s.end)):
        if change.start < at or change.end > end:
            continue
        done += [text[at : change.start], change.new]
        at = change.end
    return "".join([*done, text[at:end]])


def indent_of(line: str) -> str:
    """The white space that `line` begins with."""
    return line[: len(line) - len(line.lstrip())]


def reindent(text: str, old: str, new: str) -> str:
    """Whole lines of code with the indentation `old` replaced by `new`; the inside of strings stays as it is."""
    if old == new:
        return text
    inside = _string_lines(text)
    lines = [
        line if number in inside else _shifted(line, old, new)
        for number, line in enumerate(split_lines(text), start=1)
    ]
    return "".join(lines)


def _shifted(line: str, old: str, new: str) -> str:
    if not line.strip():
        return line.lstrip(" \t")
    # Comments and continuation lines may stand further left than the code.
    return new + (line.removeprefix(old) if line.startswith(old) else line.lstrip())


def _string_lines(text: str) -> frozenset[int]:
    """The lines of `text` that begin inside a string."""
    starts = {"FSTRING_START", "TSTRING_START"}
    ends = {"FSTRING_END", "TSTRING_END"}
    found: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            found.update(range(token.start[0] + 1, token.end[0] + 1))
        elif name in starts:
            opened.append(token.start[0])
        elif name in ends:
            found.update(range(opened.pop() + 1, token.end[0] + 1))
    return frozenset(found)


def suites(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements inside `node`, outermost first; nested functions and classes included."""
    for child in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(child, name, None)
            if isinstance(suite, list) and suite and isinstance(suite[0], ast.stmt):
                yield suite


def owns_lines(fragment: Fragment, suite: Sequence[ast.stmt], start: int, stop: int) -> bool:
    """Whether nothing else stands on the lines of `suite[start:stop]`."""
    first, last = first_line(suite[start]), suite[stop - 1].end_lineno or 0
    before = fragment.lines[first - 1][: fragment.column(first, suite[start].col_offset)]
    if isinstance(suite[start], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        before = indent_of(fragment.lines[first - 1])
    after = stop < len(suite) and first_line(suite[stop]) == last
    return not before.strip() and not after


def suite_text(
    code: Fragment, suite: Sequence[ast.stmt], above: int, changes: Iterable[Splice] = ()
) -> tuple[str, str]:
    """The lines of `suite` with the comments among them, and their indentation; `above` is the line above them.

    `changes` are made in the text on the way.
    """
    first, last = suite[0], suite[-1].end_lineno or 0
    if first_line(first) <= above or not owns_lines(code, suite, 0, 1):
        return "".join(f"{splice(code.text, changes, *code.span(node))}\n" for node in suite), ""
    indent = indent_of(code.lines[first_line(first) - 1])
    last = _last_comment(code, last, indent)
    text = splice(code.text, changes, code.line_span(1, above)[1], code.line_span(1, last)[1])
    return text if text.endswith("\n") else f"{text}\n", indent


def _last_comment(code: Fragment, last: int, indent: str) -> int:
    """The last line of a suite that ends on line `last`, counting the comments below it that belong to it."""
    found = last
    for number, line in enumerate(code.lines[last:], start=last + 1):
        if line.lstrip().startswith("#") and indent_of(line).startswith(indent):
            found = number
        elif line.strip():
            break
    return found


def colon_after(code: Fragment, line: int, column: int) -> tuple[int, int]:
    """Line and character column just behind the colon that ends the header beginning at `line` and `column`."""
    depth = 0
    text = code.text[code.line_span(line, line)[0] + column :]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.OP:
            continue
        depth += (token.string in "([{") - (token.string in ")]}")
        if token.string == ":" and depth == 0:
            row, end = token.end
            return line + row - 1, end + (column if row == 1 else 0)
    raise AssertionError("a compound statement without a colon parsed")


def same_code(left: object, right: object) -> bool:
    """Whether two trees are the same code: positions do not count, nor whether a name is read or assigned."""
    if isinstance(left, ast.AST) and isinstance(right, ast.AST):
        fields = [name for name in left._fields if name not in ("ctx", "kind", "type_comment")]
        return type(left) is type(right) and all(
            same_code(getattr(left, name, None), getattr(right, name, None)) for name in fields
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_code, left, right))
    return type(left) is type(right) and left == right
