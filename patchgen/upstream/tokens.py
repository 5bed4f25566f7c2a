"""Find strings, comments and names in Python text without parsing it.

In: text that is known to be Python.  Out: the text with its tokens rewritten, or its identifiers.
The literal part of an f-string is neither a string nor a name; the content of its braces is code.
A quote inside an f-string of the same quote (Python 3.12) is not supported: transformers supports
older interpreters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_PLAIN = r"(?:[rR][bB]?|[bB][rR]?|[uU])?"
_FORMATTED = r"(?:[fF][rR]?|[rR][fF])"
# A string from its first quote to its last.
STRING = (
    r'(?:"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""'
    r"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"'
    r"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*')"
)
# `import a.b` and `from a.b import ...` alone on their line or lines; relative imports do not
# match.
_ABSOLUTE_IMPORT = (
    r"^[ \t]*(?:import[ \t]|from[ \t]+[^\W\d][\w.]*[ \t]+import[ \t]*(?:\([^)]*\))?)[^\n]*"
)
_TOKEN = re.compile(
    rf"(?P<formatted>\b{_FORMATTED}{STRING})"
    rf"|(?P<string>(?:\b{_PLAIN})?{STRING})"
    r"|(?P<comment>\#[^\n]*)"
    rf"|(?P<imports>{_ABSOLUTE_IMPORT})"
    r"|(?P<name>\b[^\W\d]\w*)",
    re.DOTALL | re.MULTILINE,
)
# A name that may be read; an attribute or the keyword of a call; an f-string.  Names come first,
# being most.
_WORD = re.compile(
    r"(?<![\w.])([^\W\d]\w*+)(?![\"']|=(?!=))"
    r"|\b([^\W\d]\w*+)(?![\"'])"
    rf"|\b({_FORMATTED}{STRING})|(?:\b{_PLAIN})?{STRING}|\#[^\n]*+",
    re.DOTALL,
)
_PREFIXED_QUOTE = re.compile(rf"\b{_FORMATTED}[\"']")


@dataclass(frozen=True, slots=True)
class Words:
    """The names in some code.

    These are all names, and those that are not only attributes or keywords of calls.
    """

    all: frozenset[str]
    read: frozenset[str]


def words(text: str) -> Words:
    """The names in the code of `text`; words in strings and comments are none."""
    found = _WORD.findall(text)
    read = {name for name, _, _ in found} - {""}
    named = {name for _, name, _ in found} - {""}
    # Of the groups, only one matched: those that did not are empty.
    for fstring in {fstring for _, _, fstring in found} - {""}:
        for is_code, part in split_fstring(fstring):
            if is_code:
                inner = words(part)
                read |= inner.read
                named |= inner.all
    return Words(frozenset(read | named), frozenset(read))


def rewrite(
    text: str,
    name: Callable[[str], str] | None,
    string: Callable[[str], str],
    comment: Callable[[str], str],
) -> str:
    """Replace every name, string and comment of `text`.

    Absolute imports and the text of f-strings stay.
    """

    def replaced(match: re.Match[str]) -> str:
        token = match.group()
        match match.lastgroup:
            case "name":
                return name(token) if name else token
            case "string":
                return string(token)
            case "comment":
                return comment(token)
            case "formatted":
                return "".join(
                    rewrite(part, name, string, comment) if is_code else part
                    for is_code, part in split_fstring(token)
                )
            case _:
                return token

    return _TOKEN.sub(replaced, text)


def has_fstring(text: str) -> bool:
    """Whether `text` may hold an f-string; a word in a string can look like one."""
    return _PREFIXED_QUOTE.search(text) is not None


def split_fstring(token: str) -> Iterator[tuple[bool, str]]:
    """The parts of an f-string in order, each with whether it is code.

    Joined they are the token again.
    """
    at, start, end = 0, 0, len(token)
    while at < end:
        if token.startswith(("{{", "}}"), at):
            at += 2
        elif token[at] == "{":
            yield False, token[start : at + 1]
            stop = _end_of_field(token, at + 1)
            yield True, token[at + 1 : stop]
            # A conversion and a format may follow, the format with fields of its own.
            start = at = stop
        else:
            at += 1
    yield False, token[start:]


def _end_of_field(token: str, at: int) -> int:
    """Where the expression that begins at `at` ends: at `!r`, `:` or the closing brace."""
    depth, quote = 0, ""
    for place in range(at, len(token)):
        char = token[place]
        if quote:
            # Brackets inside a string do not count.
            if char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif depth:
            depth -= char in ")]}"
        elif char in ":}":
            return place
        # `!=` is an operator.
        elif char == "!" and token[place + 1 : place + 2] != "=":
            return place
    return max(at, len(token))
