"""Lists of statements as lines of text, with their indentation and the comments among them.

if x:
    # about y             `suite_text` gives this line and the next one, and their indentation;
    y = x                 `reindent` moves them to another level
z = 3
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from patchgen.compiler.classes.fragment import Fragment, Splice, splice, split_lines
from patchgen.syntax.blocks import first_line


def indent_of(line: str) -> str:
    """The white space that `line` begins with."""
    return line[: len(line) - len(line.lstrip())]


def reindent(text: str, old: str, new: str) -> str:
    """Replace the indentation `old` of whole lines by `new`; strings stay as they are."""
    if old == new:
        return text
    inside = _find_string_lines(text)
    lines: list[str] = []
    for number, line in enumerate(split_lines(text), start=1):
        lines.append(line if number in inside else _shift(line, old, new))
    return "".join(lines)


def _shift(line: str, old: str, new: str) -> str:
    """One line with another indentation; a blank line gets none."""
    if not line.strip():
        return line.lstrip(" \t")
    if line.startswith(old):
        return new + line.removeprefix(old)
    # Comments and continuation lines may stand further left than the code.
    return new + line.lstrip()


def _find_string_lines(text: str) -> frozenset[int]:
    """The lines of `text` that begin inside a string."""
    # From Python 3.12 on, an f-string is several tokens.
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
    """Every list of statements inside `node`, outermost first, also of nested functions."""
    for child in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(child, name, None)
            # The body of a lambda is an expression.
            if not isinstance(suite, list) or not suite:
                continue
            if isinstance(suite[0], ast.stmt):
                yield suite


def owns_lines(fragment: Fragment, suite: Sequence[ast.stmt], start: int, stop: int) -> bool:
    """Whether nothing else stands on the lines of `suite[start:stop]`."""
    node = suite[start]
    first, last = first_line(node), suite[stop - 1].end_lineno or 0
    # The first line of a definition may be that of a decorator, before which nothing stands.
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        column = fragment.column(first, node.col_offset)
        before = fragment.lines[first - 1][:column]
        if before.strip():
            return False
    is_end = stop == len(suite)
    return is_end or first_line(suite[stop]) != last


def suite_text(
    code: Fragment, suite: Sequence[ast.stmt], above: int, changes: Iterable[Splice] = ()
) -> tuple[str, str]:
    """The lines of `suite` with the comments among them, and their indentation.

    `above` is the line above them; `changes` are made in the text.
    """
    first, last = first_line(suite[0]), suite[-1].end_lineno or 0
    # `if x: a(); b()` has no lines of its own.
    if first <= above or not owns_lines(code, suite, 0, 1):
        texts = [splice(code.text, changes, *code.span(node)) for node in suite]
        return "".join(f"{text}\n" for text in texts), ""
    indent = indent_of(code.lines[first - 1])
    last = find_last_comment(code, last, indent)
    start, end = code.line_span(1, above)[1], code.line_span(1, last)[1]
    text = splice(code.text, changes, start, end)
    # The last line of a file may have no end.
    if not text.endswith("\n"):
        text += "\n"
    return text, indent


def find_last_comment(code: Fragment, last: int, indent: str) -> int:
    """The last line of a suite that ends on line `last`, with its comments below."""
    found = last
    for number, line in enumerate(code.lines[last:], start=last + 1):
        is_comment = line.lstrip().startswith("#")
        # One that stands further left belongs to the code around the suite.
        if is_comment and indent_of(line).startswith(indent):
            found = number
        elif line.strip():
            break
    return found


def find_colon(code: Fragment, line: int, column: int) -> tuple[int, int]:
    """Line and character column behind the colon of the header that begins at `line`, `column`."""
    # A colon in brackets belongs to an annotation or a slice.
    depth = 0
    text = code.text[code.line_span(line, line)[0] + column :]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    for token in (each for each in tokens if each.type == tokenize.OP):
        if token.string in "([{":
            depth += 1
        elif token.string in ")]}":
            depth -= 1
        elif token.string == ":" and depth == 0:
            row, end = token.end
            # Only the first line was cut.
            if row == 1:
                end += column
            return line + row - 1, end
    raise AssertionError("a compound statement without a colon parsed")
