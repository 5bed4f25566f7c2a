"""Split a method into the pieces that an override takes from one side or the other.

In: the member's text.  Out: a `Method`, split without a parser, and on demand the statements of its
body.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from patchgen.upstream.brackets import bracket_span, colon_after
from patchgen.upstream.members import DEF, TRIPLE, Member
from patchgen.upstream.statements import Statement, is_docstring, statements

# The comments between the decorators and `def`.
_BETWEEN = re.compile(r"(?:^ *(?:#.*)?\n)*\Z", re.MULTILINE)
_FIRST = re.compile(rf"\s*[a-zA-Z]*(?:{TRIPLE})[^\n]*\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Method:
    """A method in pieces; joined in this order they are its text.

    `leading` holds the lines above, `between` those between decorators and `def`, `opening` reaches
    to the bracket, `parameters` is what the brackets hold, `returns` the text from there to the
    colon, `tail` the rest of that line. `line` is the place of the body's first line in the class,
    from 0.
    """

    name: str
    leading: str
    decorators: str
    between: str
    opening: str
    parameters: str
    returns: str
    tail: str
    body: str
    line: int


@dataclass(frozen=True, slots=True)
class Body:
    """The statements of a body, with the comment lines below the last of them."""

    lines: tuple[str, ...]
    statements: tuple[Statement, ...]
    footer: str


def make_method(member: Member) -> Method:
    """Split `member`."""
    text = member.text
    found = DEF.search(text)
    assert found is not None
    start = found.start()
    between = _BETWEEN.search(text, 0, start)
    above = between.start() if between else start
    span = bracket_span(text, start)
    assert span is not None
    colon = colon_after(text, span[1] + 1)
    end = text.find("\n", colon) + 1
    tail, body = text[colon + 1 : end], text[end:]
    if not body:  # It stands behind the colon.
        tail, body = "\n", f"        {tail.strip()}\n"
    return Method(
        found.group(1),
        member.leading,
        text[:above],
        text[above:start],
        text[start : span[0]],
        text[span[0] + 1 : span[1]],
        text[span[1] + 1 : colon].strip(),
        tail,
        body,
        member.line + text.count("\n", 0, end),
    )


def parsed(method: Method) -> Body:
    """Parse the body of `method`."""
    # str.splitlines also breaks at characters that mean nothing to the tokenizer.
    lines = ("if 1:\n", *(f"{line}\n" for line in method.body.removesuffix("\n").split("\n")))
    block = ast.parse("".join(lines)).body[0]
    assert isinstance(block, ast.If)
    return Body(lines, *statements(lines, block.body, 1, len(lines)))


def docstring_of(method: Method) -> str:
    """The docstring with the lines above it, wherever in the body it stands.

    Empty when there is none.
    """
    # A search is enough for most methods, and parsing takes time.
    if '"""' not in method.body:
        return ""
    if method.body.count('"""') == 2:
        first = _FIRST.match(method.body)
        # With code behind it on its last line, it need not be a docstring.
        if first and first.group().endswith('"""\n'):
            return first.group()
    return "".join(
        statement.whole for statement in parsed(method).statements if is_docstring(statement)
    )
