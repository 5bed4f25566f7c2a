"""What a class text consists of: decorators, header, docstring, attributes and methods.

In: the text of one class at column 0, formatted.  Out: its parts as text, which `merge` puts
together.  What is no docstring, attribute or method (`pass`, nested classes, `if` blocks, several
statements on a line) has no part and is lost.  The members are found by their indentation, without
a parser: most of them are only copied.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.upstream.brackets import Item, bracket_span, colon_after, items
from patchgen.upstream.statements import Statement, is_docstring, slice_of

# A string or comment, which may hold anything, or the start of a line one level down that closes no
# bracket.
TRIPLE = r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""' + r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
_SINGLE = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"' + r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
_START = re.compile(rf"{TRIPLE}|{_SINGLE}|#[^\n]*|^    (?=[^\s)\]}}#])", re.MULTILINE | re.DOTALL)
DEF = re.compile(r"^    (?:async )?def (\w+)", re.MULTILINE)
_SIMPLE_KEY = re.compile(r"    (\w+)(?: = |: )")
_DOCSTRING = re.compile(r'    [a-zA-Z]*"""')


@dataclass(frozen=True, slots=True)
class Member:
    """A statement of a class.

    The blank and comment lines above, its own whole lines, and their place from 0.
    """

    leading: str
    text: str
    line: int

    @property
    def whole(self) -> str:
        """The statement with the lines above it."""
        return self.leading + self.text


@dataclass(frozen=True, slots=True)
class Members:
    """A class in pieces.

    Attributes are keyed by the text of their target, methods by their name.
    """

    decorators: str
    arguments: tuple[Item, ...]
    docstring: Member | None
    attributes: dict[str, Member]
    methods: dict[str, Member]


def members(text: str) -> Members:
    """The parts of the class whose text is `text`."""
    # The decorators stand above the class line.
    decorated = 0 if text.startswith("class ") else text.index("\nclass ") + 1
    span = bracket_span(text, decorated)
    colon = colon_after(text, span[1] + 1 if span else decorated)
    body = text.find("\n", colon) + 1
    arguments = items(text[span[0] + 1 : span[1]]) if span else ()
    docstring: Member | None = None
    attributes: dict[str, Member] = {}
    methods: dict[str, Member] = {}
    for member in _split(text, body):
        # Every member is indented by four blanks.
        first = member.text[4:8]
        if first.startswith(("@", "def ", "asyn")):
            _file(methods, member)
            continue
        if first.lstrip("rRbBuU").startswith('"""') and _is_docstring(member.text):
            docstring = member
            continue
        key = _attribute_key(member.text)
        if key is not None:
            attributes[key] = member
    return Members(text[:decorated], arguments, docstring, attributes, methods)


def _split(text: str, body: int) -> Iterator[Member]:
    """The members of the class body, which begins at `body`."""
    starts = [found.start() for found in _START.finditer(text, body) if found.group() == "    "]
    line, above, decorated = text.count("\n", 0, body), body, -1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        if text.startswith("@", start + 4):
            decorated = start if decorated < 0 else decorated
            continue
        # A decorated method begins with the first of its decorators.
        first = start if decorated < 0 else decorated
        decorated = -1
        last = _end_of(text, start, end)
        line += text.count("\n", above, first)
        yield Member(text[above:first], text[first:last], line)
        line += text.count("\n", first, last)
        above = last


def _end_of(text: str, start: int, end: int) -> int:
    """Where the statement from `start` ends.

    Blank lines and comments one level down before `end` are not its.
    """
    while (previous := text.rfind("\n", start, end - 1) + 1) > start:
        line = text[previous:end]
        if not line.isspace() and not line.startswith("    #"):
            break
        end = previous
    return end


def _file(methods: dict[str, Member], method: Member) -> None:
    """A second method of a name is its setter, unless it is the property and the first one was the
    setter.

    Of three, one is lost (the overloads of `edgetam_video`).
    """
    found = DEF.search(method.text)
    if found is None:  # A decorated class.
        return
    name = found.group(1)
    if name not in methods:
        methods[name] = method
    elif method.text.startswith("    @property\n"):
        methods[f"{name}'s setter"], methods[name] = methods[name], method
    else:
        methods[f"{name}'s setter"] = method


def _is_docstring(text: str) -> bool:
    """Whether a member that begins with three quotes is nothing but a string."""
    # Nearly every docstring; the others have to be parsed.
    if text.endswith('"""\n') and text.count('"""') == 2:
        return True
    return is_docstring(Statement("", text, _parsed(text)[0], True))


def _attribute_key(text: str) -> str | None:
    """The text of the (first) target of an assignment that has its lines for itself, annotated or
    not.
    """
    if ";" not in text and (found := _SIMPLE_KEY.match(text)):
        return found.group(1)
    # No assignment, so that parsing is not worth its time.
    if "=" not in text and ":" not in text or text.startswith(("    if ", "    class ")):
        return None
    match _parsed(text):
        case [ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target)]:
            return slice_of(["", *_lines(text)], target)
    return None


def _parsed(text: str) -> Sequence[ast.stmt]:
    """The statements of a member's text; of what is half of a statement (`else:`) none."""
    try:
        # The text is indented, which Python allows inside a block only.
        block = ast.parse(f"if 1:\n{text}").body[0]
    except SyntaxError:
        return [ast.Pass()]
    assert isinstance(block, ast.If)
    return block.body


def _lines(text: str) -> list[str]:
    return text.split("\n")
