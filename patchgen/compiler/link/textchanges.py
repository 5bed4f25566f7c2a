"""Replace words on the lines of a text, and remember where.

    text      self.mlp = MLP(config)
    change    line 1, bytes 11 to 14, "TinyMLP"
    result    self.mlp = TinyMLP(config)

Columns count bytes of UTF-8, as those of `ast` do.  No change adds or removes a line.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen.compiler.plan.model import Edit

_TEXT_TOKENS = frozenset(
    {
        tokenize.STRING,
        tokenize.COMMENT,
        # Python 3.12 reads the text of an f-string as tokens of its own.
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
)


@dataclass(frozen=True, slots=True)
class TextChange:
    """The bytes `start` to `end` of a line become `new`."""

    line: int
    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Word:
    """An identifier in a string or comment, with the line and the byte on which it begins."""

    line: int
    start: int
    text: str
    is_comment: bool

    @property
    def end(self) -> int:
        """The byte behind the word."""
        return self.start + len(self.text.encode())


def apply_changes(lines: Iterable[str], changes: set[TextChange]) -> tuple[str, tuple[Edit, ...]]:
    """Make all changes.  Returns the text, and each change again with its column in characters."""
    changed = list(lines)
    edits: list[Edit] = []
    # From the last change to the first, so that the positions of the others stay true.
    in_order = sorted(changes, key=lambda change: (change.line, change.start), reverse=True)
    for change in in_order:
        raw = changed[change.line - 1].encode()
        before, old, after = (
            raw[: change.start].decode(),
            raw[change.start : change.end].decode(),
            raw[change.end :].decode(),
        )
        edits.append(Edit(change.line, len(before), old, change.new))
        changed[change.line - 1] = before + change.new + after
    return "\n".join(changed), tuple(reversed(edits))


def find_words(text: str, words: Iterable[str]) -> Iterator[Word]:
    """Each of `words` that stands in a string or a comment of `text`."""
    pattern = _compile_words(words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _TEXT_TOKENS:
            continue
        first_line, column = token.start
        is_comment = token.type == tokenize.COMMENT
        for offset, line in enumerate(token.string.split("\n")):
            # The token begins at `column`, its further lines at the start of theirs.
            before = token.line.split("\n")[0][:column] if offset == 0 else ""
            base = len(before.encode())
            for found in pattern.finditer(line):
                start = base + len(line[: found.start()].encode())
                yield Word(first_line + offset, start, found.group(), is_comment)


def rename_words(text: str, renamed: Mapping[str, str]) -> str:
    """Rename whole identifiers anywhere in `text`."""
    if not renamed or not text.strip():
        return text
    pattern = _compile_words(renamed)
    return pattern.sub(lambda found: renamed[found.group()], text)


def find_end_of_name(line: bytes, start: int) -> int:
    """The byte behind the name that begins at `start`.

    The name may be written with other characters than Python reads: `ﬁ` is read as `fi`.
    """
    # Decoded, as `\w` of bytes knows ASCII alone.
    found = re.match(r"\w+", line[start:].decode(errors="ignore"))
    if found is None:
        return start
    return start + len(found.group().encode())


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    # The longest first: of `LlamaMLP|Llama`, an alternation takes the first that matches.
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?:{alternatives})(?!\w)")
