"""Read one file as text: safely, decoded, with positions that a person can use.

In: a path.  Out: a frozen `Source`, or a `PatchgenError` that names the place.  This module leaves
Python's grammar to `ast`: it only asks whether the text is valid.
"""

from __future__ import annotations

import ast
import codecs
import functools
import gc
import hashlib
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from patchgen import budget, disk
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.shown import refuse_unseen
from patchgen.syntax.trees import column_of

_T = TypeVar("_T")
# Invisible characters that change the order or the look of code.
INVISIBLE = (
    "\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
_BIDI = re.compile(f"[{INVISIBLE}]")
_NO_CODE = re.compile(rb"[ \t\f]*(?:#.*)?$")
_TYPE_PARAMETERS = re.compile(r"\s*(?:class|def|async\s+def)\s+\w+\s*\[|\s*type\s+\w+\s*[\[=]")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True)
class Source:
    """A module's text with `\\n` line ends.

    `digest` is the sha256 of that text, so that line-end settings do not matter.
    """

    module: str
    path: str
    text: str
    digest: str

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines, each with its line end.

        Made when somebody asks: most files are only searched for a name.
        """
        # str.splitlines also breaks at \x0c, \x1c and others; Python's tokenizer does not.
        *lines, last = self.text.split("\n")
        kept = [f"{line}\n" for line in lines]
        if last:
            kept.append(last)
        return tuple(kept)

    def slice(self, first: int, last: int) -> str:
        """The text of lines `first` to `last`, both counted from 1 and included."""
        return "".join(self.lines[first - 1 : last])

    def at(self, line: int, byte_column: int = 0) -> Location:
        """The location of an `ast` position, whose columns count UTF-8 bytes."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        column = min(column_of(text, byte_column), len(text))
        return Location(self.path, line, column + 1)

    def at_node(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias) -> Location:
        """The location where `node` begins."""
        return self.at(node.lineno, node.col_offset)


def make_source(text: str, path: str, module: str = "") -> Source:
    """A `Source` from text that is already decoded."""
    digest = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
    return Source(module, path, text, digest)


def read_source(
    path: Path, module: str = "", display_path: str | None = None, *, allow_bidi: bool = False
) -> Source:
    """The file at `path`; `display_path` is the path that messages print.

    Raises PatchgenError PG001 to PG006 for what is not a readable, plain Python text in UTF-8 or
    the encoding that it declares, PG904 for a link to a file of another kind, PG506 for a path that
    could not stand in a comment or a message.
    """
    name = display_path or str(path)
    refuse_unseen(name)
    # Messages quote lines: a link in a stranger's repository must not show a token in a log.
    if path.is_symlink() and path.exists() and path.resolve().suffix != path.suffix:
        disk.require_own(path, path.parent)
    return make_source(decode(read_bytes(path, name), name, allow_bidi=allow_bidi), name, module)


def read_bytes(path: Path, name: str) -> bytes:
    """The bytes of the file at `path`.

    Raises PatchgenError PG001 for what is no regular file or cannot be read, PG002 for what is too
    large.
    """
    try:
        return disk.read_bytes(path)
    except OSError as error:
        raise disk.unreadable(error, name) from error


def decode(data: bytes, name: str, *, allow_bidi: bool = False) -> str:
    """Python's own rules (byte order mark, coding cookie, UTF-8), line ends made `\\n`."""
    # Python accepts the mark, and it is no part of the code.
    has_mark = data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    encoding = _declared_encoding(data) or "utf-8"
    try:
        if has_mark and codecs.lookup(encoding).name != "utf-8":
            what = f"begins with UTF-8's byte order mark and declares {encoding}"
            raise PatchgenError("PG003", Location(name, 1, 1), what, "leave the declaration out")
        if not _reads_ascii(encoding):
            what = f"declares {encoding}, but is not in it: the declaration itself is ASCII"
            raise PatchgenError("PG003", Location(name, 1, 1), what, "save it as UTF-8")
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        what = f"is not {encoding.upper()}: byte {data[error.start]:#04x} at offset {error.start}"
        above = _unify_line_ends(data[: error.start].decode(encoding, errors="replace"))
        at = _locate(name, above, len(above))
        raise PatchgenError("PG003", at, what, "save it as UTF-8") from error
    except LookupError as error:
        what = f"declares an unknown encoding {encoding!r}"
        raise PatchgenError("PG003", Location(name, 1, 1), what, "save it as UTF-8") from error
    # After decoding: in UTF-16 the bytes would differ.
    text = _unify_line_ends(text)
    _refuse_what_takes_long(text, name)
    _refuse_controls(text, name, allow_bidi)
    return text


def _refuse_what_takes_long(text: str, name: str) -> None:
    if len(text) <= budget.LINE or budget.is_unlimited():
        return
    lines = text.split("\n")
    if len(lines) > budget.LINES:
        what = f"has {len(lines):,} lines; the limit is {budget.LINES:,}"
        raise budget.exceeded(Location(name), what)
    longest = max(lines, key=len)
    if len(longest) > budget.LINE:
        what = f"has a line of {len(longest):,} letters; the limit is {budget.LINE:,}"
        raise budget.exceeded(Location(name, lines.index(longest) + 1, 1), what)


def declares_another_encoding(line: str) -> bool:
    """Whether `line`, on one of the first lines of a file, would say that it is not UTF-8."""
    match = _COOKIE.match(line.encode("utf-8", errors="replace"))
    try:
        return match is not None and codecs.lookup(match.group(1).decode()).name != "utf-8"
    except LookupError:
        return True


def _declared_encoding(data: bytes) -> str | None:
    """The encoding that a cookie declares.

    It stands on the first line, or on the second where the first is a comment or blank.
    """
    first, *others = re.split(rb"\r\n|\r|\n", data, maxsplit=2)
    head = [first, *others[:1]] if _NO_CODE.match(first) else [first]
    for line in head:
        match = _COOKIE.match(line)
        if match:
            return match.group(1).decode()
    return None


def _reads_ascii(encoding: str) -> bool:
    """Whether a declaration can stand in a file in `encoding`; not so in UTF-16."""
    try:
        return b"coding".decode(encoding) == "coding"
    except UnicodeError:
        return False


def _unify_line_ends(text: str) -> str:
    """`text` with `\\n` at the end of each line."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _locate(name: str, text: str, offset: int) -> Location:
    """Where the character at `offset` of `text` stands in the file `name`."""
    line = text.count("\n", 0, offset) + 1
    return Location(name, line, offset - text.rfind("\n", 0, offset))


def _refuse_controls(text: str, name: str, allow_bidi: bool) -> None:
    """Raise PG004 or PG005 for characters that hide what the text says."""
    match = re.search("\x00", text) if "\x00" in text else None
    # The test of an ASCII text is much faster than the search in it.
    if match is None and not allow_bidi and not text.isascii():
        match = _BIDI.search(text)
    if match is None:
        return
    at = _locate(name, text, match.start())
    if match.group() == "\x00":
        raise PatchgenError("PG004", at, "holds a NUL character", "delete it")
    what = f"holds the invisible control character U+{ord(match.group()):04X}"
    hint = "remove it: such characters make code read differently than it runs"
    raise PatchgenError("PG005", at, what, hint)


def parse(source: Source) -> ast.Module:
    """The syntax tree of `source`.

    Raises PatchgenError PG006 at the position that CPython reports.
    """
    return parse_text(source.text, source.path)


def parse_text(text: str, name: str) -> ast.Module:
    """`ast.parse` with located errors."""
    return _parse_safely(lambda: ast.parse(text, name), name)


def require_compilable(source: Source) -> None:
    """Check that Python can compile `source`, which refuses more than its parser.

    `return` outside a function parses.  Raises PatchgenError PG006 at the position that CPython
    reports.
    """
    # Without `dont_inherit`, the future imports of this module would count for the source.
    _parse_safely(lambda: compile(source.text, source.path, "exec", dont_inherit=True), source.path)


def _describe(error: SyntaxError) -> str:
    """What is wrong; syntax of a newer Python is named as such."""
    if sys.version_info < (3, 12) and _TYPE_PARAMETERS.match(error.text or ""):
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return (
            f"type parameters are not supported by Python {here}, "
            "which runs patchgen, but by 3.12 and newer"
        )
    return error.msg


def _parse_safely(parse: Callable[[], _T], name: str) -> _T:
    """The result of `parse`, with the errors that Python may raise as PatchgenError."""
    collecting = gc.isenabled()
    gc.disable()  # A full collection walks every node made so far: it costs more than the parse.
    try:
        with warnings.catch_warnings():
            # Warnings about a parent's code do not concern the user.
            warnings.simplefilter("ignore")
            return parse()
    except SyntaxError as error:
        at = Location(name, error.lineno or 1, error.offset or 1)
        raise PatchgenError("PG006", at, f"is not valid Python: {_describe(error)}") from error
    except (RecursionError, MemoryError) as error:
        at = Location(name, 1, 1)
        raise PatchgenError("PG006", at, "is nested too deeply to be parsed") from error
    except ValueError as error:
        at = Location(name, 1, 1)
        raise PatchgenError("PG006", at, f"is not valid Python: {error}") from error
    finally:
        if collecting:
            gc.enable()


def read_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of `text`; the iterator raises `tokenize.TokenError` for what is no Python."""
    return tokenize.generate_tokens(io.StringIO(text).readline)


def count_words(word: str, text: str, behind: str = "") -> int:
    """How often the identifier `word` stands in `text`, where the pattern `behind` it fits."""
    # A pattern that begins with letters is looked for ten times faster.
    return len(re.findall(rf"{word}(?<!\w{word}){behind}\b", text))
