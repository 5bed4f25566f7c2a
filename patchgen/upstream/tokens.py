"""Find strings, comments, names, brackets and statements in Python text without parsing it.

In: text that is known to be Python.  Out: the text with its tokens rewritten, its identifiers, the
entries of a bracketed list, or the text without the bodies of its definitions.  The literal part of
an f-string is neither a string nor a name; the content of its braces is code.  A quote inside an
f-string of the same quote (Python 3.12) is not supported: transformers supports older interpreters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

_PLAIN = r"(?:[rR][bB]?|[bB][rR]?|[uU])?"
_FORMATTED = r"(?:[fF][rR]?|[rR][fF])"
# A string in three quotes, and any string, from its first quote to its last.
TRIPLE = (
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""' + r"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''"
)
STRING = rf"(?:{TRIPLE}" + r"""|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*')"""
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
# Strings and comments are consumed whole, so that nothing in them is taken for a bracket or for the
# beginning of a statement.
_BRACKET = re.compile(rf"{STRING}|\#[^\n]*+|[()\[\]{{}},:]", re.DOTALL)
_START = re.compile(
    rf"\#[^\n]*+|{STRING}|^(?:@|(class|def|async def) (\w+)|[^\W\d])", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Words:
    """The names in some code.

    These are all names, and those that are not only attributes or keywords of calls.
    """

    all: frozenset[str]
    read: frozenset[str]


def words(text: str) -> Words:
    """The names in the code of `text`; words in strings and comments are none."""
    # Of the groups, only one matched: those that did not are empty.
    groups = _WORD.findall(text)
    read = {name for name, _, _ in groups} - {""}
    named = {name for _, name, _ in groups} - {""}
    for fstring in {fstring for _, _, fstring in groups} - {""}:
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
    at = 0
    start = 0
    end = len(token)
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


def _end_of_field(token: str, start: int) -> int:
    """Where the expression that begins at `start` ends: at `!r`, `:` or the closing brace."""
    depth = 0
    quote = ""
    for at in range(start, len(token)):
        char = token[at]
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
        # `!=` is an operator.
        elif char in ":}" or (char == "!" and token[at + 1 : at + 2] != "="):
            return at
    return max(start, len(token))


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a bracketed list.

    `text` has no outer blanks.  `after` reaches from its comma to the next entry, and is empty
    without a comma.  `before` holds the comments between an opening bracket and the first entry.
    """

    text: str
    after: str = ""
    before: str = ""


def _outside(text: str, start: int, wanted: str) -> Iterator[int]:
    """The places of the character `wanted` behind `start` that stand in no bracket or string."""
    depth = 0
    for token in _BRACKET.finditer(text, start):
        char = token.group()
        if char in ("(", "[", "{"):
            depth += 1
        elif char in (")", "]", "}"):
            depth -= 1
        elif not depth and char == wanted:
            yield token.start()


def colon_after(text: str, start: int) -> int:
    """The place of the colon that ends the header, which goes on at `start`."""
    return next(_outside(text, start, ":"))


def bracket_span(text: str, start: int) -> tuple[int, int] | None:
    """Where the first round bracket after `start` opens and closes; None if a colon comes first."""
    depth = 0
    opened = -1
    for token in _BRACKET.finditer(text, start):
        match token.group():
            case "(" | "[" | "{" as bracket:
                # Brackets of another kind, as in `class A[T](B)`, are stepped over.
                if not depth and bracket == "(" and opened < 0:
                    opened = token.start()
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
                if not depth and opened >= 0:
                    return opened, token.start()
            case ":" if not depth:
                return None
    return None


def items(text: str) -> tuple[Item, ...]:
    """The entries of `text`, the content of a bracket."""
    entries: list[Item] = []
    commas = [*_outside(text, 0, ",")]
    for start, end in zip([-1, *commas], [*commas, len(text)], strict=True):
        before = ""
        entry = text[start + 1 : end].lstrip()
        while entry.startswith("#"):
            line, _, entry = entry.partition("\n")
            before += f"  {line}\n"
            entry = entry.lstrip()
        # A comment above an entry stands behind the comma of the one before, and belongs to that;
        # so do comments behind the last entry.
        if entries and before:
            entries[-1] = replace(entries[-1], after=entries[-1].after + before)
            before = ""
        comma = "," if end < len(text) else ""
        if entry or comma:
            entries.append(Item(entry.rstrip(), comma, before))
    return tuple(entries)


def joined(entries: Sequence[Item]) -> str:
    """Join the entries into the content of a bracket.

    A comma is added where one is needed; none is removed.
    """
    text = ""
    for number, entry in enumerate(entries, 1):
        text += entry.before + entry.text
        if number < len(entries):
            # A comma cannot stand behind a comment.
            comma = "\n," if _may_end_in_comment(entry.text) else ","
            text += ("" if entry.after.startswith(",") else comma) + entry.after + " "
        else:
            text += entry.after
    # A comment at the end would swallow the bracket.
    return f"{text}\n" if _may_end_in_comment(text) else text


def _may_end_in_comment(text: str) -> bool:
    # A `#` in a string costs a line end, which the formatter removes.
    return "#" in text.rpartition("\n")[2]


def strip_bodies(text: str) -> tuple[str, Mapping[int, int]]:
    """`text` without the bodies of classes and functions, so that parsing it costs a tenth.

        class LlamaMLP(nn.Module):              class LlamaMLP: pass
            def __init__(self): ...      ->

    `text` is a parent file as a formatter leaves it, in which a line that starts at column 0 starts
    a statement.  The result has the same statements on the same lines; with it comes the last line
    of each definition by the line of its `def`.
    """
    parts: list[str] = []
    ends: dict[int, int] = {}
    done = 0
    line = 1
    for first, at, after, keyword, name in _definitions(text):
        parts.append(text[done:first])
        line += text.count("\n", done, first)
        end = end_of_block(text, at, after, "")
        above = text.count("\n", first, at)
        inside = text.count("\n", at, end)
        # One decorator, and line ends in place of all else: every line keeps its number.
        marker = "@_" + "\n" * above if above else ""
        brackets = "" if keyword == "class" else "()"
        parts.append(f"{marker}{keyword} {name}{brackets}: pass")
        parts.append("\n" * inside)
        # With the line end of its last line, one line too many is counted.
        ends[line + above] = line + above + inside - text.endswith("\n", at, end)
        line += above + inside
        done = end
    parts.append(text[done:])
    return "".join(parts), ends


def _definitions(text: str) -> Iterator[tuple[int, int, int, str, str]]:
    """Find the definitions.

    For each: where its decorators and it begin, where the next statement begins, keyword and name.
    """
    starts = []
    for match in _START.finditer(text):
        at = match.start()
        # A string is no start, unless a statement begins with it.
        if text[at] != "#" and (not at or text[at - 1] == "\n"):
            starts.append(match)
    ends = [match.start() for match in starts[1:]] + [len(text)]
    first_decorator: int | None = None
    for match, after in zip(starts, ends, strict=True):
        at = match.start()
        # Several decorators belong to one definition.
        if text[at] == "@":
            first_decorator = at if first_decorator is None else first_decorator
            continue
        if match[1]:
            yield at if first_decorator is None else first_decorator, at, after, match[1], match[2]
        first_decorator = None


def end_of_block(text: str, start: int, end: int, indent: str) -> int:
    """Where the statement from `start` ends, which stands at `indent`.

    Blank lines and comments at its own level before `end` belong to what follows.
    """
    while (line := text.rfind("\n", start, end - 1) + 1) > start:
        if not text[line:end].isspace() and not text.startswith(f"{indent}#", line):
            break
        end = line
    return end
