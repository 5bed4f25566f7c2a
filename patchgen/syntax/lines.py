"""Count the lines of a text that hold code, for the figures of `patchgen list`."""

from __future__ import annotations

import tokenize

from patchgen.syntax.text import read_tokens

# Tokens that stand between statements, or in lines that say nothing to Python.
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NL,
}


def code_lines(text: str) -> int:
    """The lines of a Python file that hold code: no blank lines, comments or docstrings.

    A string that is a statement by itself counts as a docstring.  Raises `tokenize.TokenError` or
    `SyntaxError` for what is no Python.
    """
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in read_tokens(text):
        if token.type in _LAYOUT:
            continue
        # NEWLINE ends a logical line, which may span several physical ones.
        if token.type == tokenize.NEWLINE:
            lines.update(_lines_of(statement))
            statement = []
        else:
            statement.append(token)
    return len(lines)


def _lines_of(statement: list[tokenize.TokenInfo]) -> set[int]:
    """The lines of a statement; none for a docstring."""
    if all(part.type == tokenize.STRING for part in statement):
        return set()
    numbers: set[int] = set()
    for part in statement:
        numbers.update(range(part.start[0], part.end[0] + 1))
    return numbers


def changed_lines(diff: str) -> tuple[int, int]:
    """The lines that a unified diff of one file adds and removes, blank ones not counted."""
    body = diff.split("\n")[2:]  # below the two names
    filled = [line[0] for line in body if line[1:].strip()]
    return filled.count("+"), filled.count("-")
