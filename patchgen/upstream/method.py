"""A method in the pieces that an override takes from one side or the other.

In: the member's text.  Out: a `Method`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.upstream.brackets import bracket_span, colon_after
from patchgen.upstream.members import Member
from patchgen.upstream.statements import Statement, decorators_of, statements


@dataclass(frozen=True, slots=True)
class Method:
    """A method in pieces; joined in this order they are its text.

    `leading` holds the lines above, `between` those between decorators and `def`, `opening` reaches to the bracket,
    `parameters` is what the brackets hold, `returns` the text from there to the colon, `tail` the rest of that line.
    The nodes of `body` count lines in `lines`; `line` is the place of the first of these in the class.
    """

    name: str
    leading: str
    decorators: tuple[str, ...]
    between: str
    opening: str
    parameters: str
    returns: str
    tail: str
    body: tuple[Statement, ...]
    footer: str
    lines: tuple[str, ...]
    line: int


def make_method(member: Member) -> Method:
    """The method of `member`, cut into pieces."""
    # str.splitlines also breaks at characters that mean nothing to the tokenizer.
    lines = ("if 1:\n", *(f"{line}\n" for line in member.text.removesuffix("\n").split("\n")))
    block = ast.parse("".join(lines)).body[0]
    assert isinstance(block, ast.If)
    node = block.body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    decorators = decorators_of(lines, node.decorator_list)
    first = node.lineno - 1
    header = "".join(lines[first : node.body[0].lineno])
    span = bracket_span(header)
    assert span is not None
    colon = colon_after(header, span[1] + 1)
    end = first + header.count("\n", 0, colon) + 1
    if node.body[0].lineno == end:
        tail, footer = "\n", ""
        body: tuple[Statement, ...] = (_on_header_line(header[colon + 1 :].strip(), node),)
    else:
        tail = header[colon + 1 :].partition("\n")[0] + "\n"
        body, footer = statements(lines, node.body, end, len(lines))
    return Method(
        node.name,
        member.leading,
        decorators,
        "".join(lines[1 + sum(text.count("\n") for text in decorators) : first]),
        header[: span[0]],
        header[span[0] + 1 : span[1]],
        header[span[1] + 1 : colon].strip(),
        tail,
        body,
        footer,
        lines,
        member.line - 1,
    )


def _on_header_line(text: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Statement:
    return Statement("", f"{' ' * (node.col_offset + 4)}{text}\n", node.body[0], len(node.body) == 1)
