"""Keep the layout that a formatted text has under every release of ruff.

Two rules came with ruff 0.15.  Outputs, and the files of transformers that they are compared with,
have the older layout, whichever ruff is installed.

    check(                              check(
        lambda: (                           lambda: f"a long message of {count} tokens",
            f"a long message ..."       )
        ),
    )

    def scale(x):                       def scale(x):
                                            return 2 * x
        return 2 * x
"""

from __future__ import annotations

import ast
import re

from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.fragments import Fragment, split_lines
from patchgen.syntax.same import is_same_code
from patchgen.syntax.trees import Function, parse_once, walk

# Parsing takes time.
_SPACED = re.compile(r"^ *(?:(?:async )?def\b|\)).*:\n\n", re.MULTILINE)
_IN_PARENTHESES = re.compile(r"\blambda\b[^\n]*:\s*\(")
_OPEN_LINE = re.compile(r"[(\[{]\n")


def keep_layout(before: str, after: str, line_length: int) -> str:
    """`after`, which ruff made of `before`, in the older layout.

    Raises PatchgenError PG912 for a lambda that older releases would break at other places.
    """
    # Few texts have what the patterns begin with, for which `in` looks a hundred times faster.
    if ":\n\n" in after and _SPACED.search(after):
        after = _close_up(after)
    if not any("lambda" in text and _IN_PARENTHESES.search(text) for text in (before, after)):
        return after
    text = after
    # Formatting changes no tree, so that the lambdas stand in the same order.
    for number, old in enumerate(_find_bodies(before)):
        node, start, end = _find_bodies(text)[number]
        body = text[start:end]
        was_wrapped = _is_wrapped(before, old[1])
        if was_wrapped == _is_wrapped(text, start):
            continue
        colon = text.rindex(":", 0, start)
        rest = text[end:]
        if was_wrapped:
            body = f"({body})"
        else:
            rest = rest[rest.index(")") + 1 :]
        # Whether a bracket or an operator inside of others breaks a line depends on its length.
        words = {line.split()[0] for line in body.split("\n")[1:]}
        is_mixed = not isinstance(node, ast.Constant | ast.JoinedStr) and len(words) > 1
        opened = _OPEN_LINE.search(body) or (is_mixed and not words <= {"if", "else"})
        body = body.replace("\n    ", "\n")
        text = f"{text[:colon]}: {body}{rest}"
        line = text[text.rfind("\n", 0, colon) + 1 :].partition("\n")[0]
        # A text is left alone, as long as there are no parameters to break the line at.
        is_text = isinstance(node, ast.Constant | ast.JoinedStr)
        is_kept = is_text and "," not in text[text.rindex("lambda", 0, colon) : colon]
        if opened or (len(line) > line_length and not is_kept):
            break
    else:
        if is_same_code(ast.parse(text).body, ast.parse(after).body):
            return text
    what = f"lays out this lambda as older releases do not: {body.partition(chr(10))[0]}"
    hint = 'write a function with a name, or pip install "ruff<0.15"'
    raise PatchgenError("PG912", Location("ruff"), what, hint)


def _close_up(text: str) -> str:
    """`text` without blank lines below the heads of functions."""
    lines = text.split("\n")
    for node in walk(parse_once(text)):
        if isinstance(node, Function):
            below = first_line(node.body[0]) - 1
            while lines[below - 1].lstrip()[:1] in ("", "#"):
                below -= 1
            if not lines[below]:
                lines[below] = "\0"
    return "\n".join(line for line in lines if line != "\0")


def _find_bodies(text: str) -> list[tuple[ast.expr, int, int]]:
    """The bodies of lambdas, and where they begin and end without parentheses around them."""
    code = Fragment(text, (), split_lines(text))
    nodes = [node for node in walk(ast.parse(text)) if isinstance(node, ast.Lambda)]
    return [(node.body, *code.span(node.body)) for node in nodes]


def _is_wrapped(text: str, start: int) -> bool:
    """Whether a parenthesis stands between the colon and the body, which begins at `start`."""
    return text[:start].rstrip().endswith("(")
