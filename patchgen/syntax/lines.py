"""Count the lines of a text that hold code, for the figures of `patchgen list`."""

from __future__ import annotations

import io
import tokenize

# Tokens that stand between statements, or in lines that say nothing to Python.
_LAYOUT = {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """The lines of a Python file that hold code: no blank lines, comments or docstrings.

    A string that is a statement by itself counts as a docstring.  Raises `tokenize.TokenError` or
    `SyntaxError` for what is no Python.
    """
    lines: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _LAYOUT or token.type == tokenize.COMMENT:
            continue
        if token.type != tokenize.NEWLINE:
            statement.append(token)
            continue
        if any(part.type != tokenize.STRING for part in statement):
            for part in statement:
                lines.update(range(part.start[0], part.end[0] + 1))
        statement = []
    return len(lines)


def changed_lines(diff: str) -> tuple[int, int]:
    """The lines that a unified diff of one file adds and removes, blank ones not counted."""
    body = diff.split("\n")[2:]  # below the two names
    added = sum(line.startswith("+") and line[1:].strip() != "" for line in body)
    removed = sum(line.startswith("-") and line[1:].strip() != "" for line in body)
    return added, removed
