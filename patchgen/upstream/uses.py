"""Find which imported names the pieces of an output use, by Python's scopes.

In: the pieces, and names that imports could bind for them.  Out: those that are read where no local
name hides them.  Words decide about most names.  A syntax tree is made only of a piece that also
binds the name (a parameter `pad`, a local `resize`) or has it in a string that may be an
annotation.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from patchgen.syntax.scopes import references
from patchgen.syntax.text import parse_text
from patchgen.upstream.tokens import Words, words

# A string that may be a quoted annotation: after `:`, `->`, `|`, or inside brackets, on one line.
_MAY_BE_ANNOTATION = re.compile(r"[>:|\[,][ \t\n]*+(?:\"([^\"\n\\]++)\"|'([^'\n\\]++)')")
# What may be a type in it: a class, or a module with what is taken from it.
_NAMED = re.compile(r"(?<![\w.])(?:_*[A-Z]\w*+|[^\W\d]\w*+(?=\.))")
# What stands before and behind a name that may be bound there rather than read.
_STATEMENT_BEFORE = re.compile(r"\b(?:def|for|as|import|del|global)[ \t]+\(?\Z")
_BEHIND_TARGET = re.compile(r"[ \t]*(?:=(?!=)|[:,)\]]|in\b)")
_CLASS = re.compile(r"^class ", re.MULTILINE)


@dataclass(frozen=True)
class NamedText:
    """A definition of an output: its text with the lines above it, and the names in it."""

    text: str
    words: Words

    def may_bind(self, name: str) -> bool:
        """Whether `name` may be a parameter or a local name somewhere in it.

        Only names in lower case may.
        """
        if not name.lstrip("_")[:1].islower():
            return False
        return any(
            _binds(self.text, match.start(), match.end()) and not self._is_method(match.start())
            for match in _occurrences(name).finditer(self.text)
        )

    def _is_method(self, at: int) -> bool:
        """Whether the name at `at` is that of a method, which hides it from no other method."""
        return self.text.endswith("\n    def ", 0, at) and _CLASS.search(self.text) is not None

    @functools.cached_property
    def globals_read(self) -> frozenset[str]:
        """What Python's scope rules say that it reads.

        A local import of a name counts as a use of it.
        """
        tree = parse_text(self.text, "output")
        found = {reference.name for reference in references(tree.body)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update(alias.asname or alias.name for alias in node.names)
        return frozenset(found)


def make_named_text(text: str) -> NamedText:
    """`text` with the names in it."""
    return NamedText(text, words(text))


def used_names(pieces: Sequence[NamedText], candidates: Set[str]) -> frozenset[str]:
    """Those of `candidates` that `pieces` read as globals, in code and in quoted annotations."""
    # In three steps, from what costs least: most names are gone before a tree is made.
    left = set(candidates)
    suspects: list[tuple[NamedText, str]] = []
    for piece in pieces:
        for name in left & piece.words.read:
            if piece.may_bind(name):
                suspects.append((piece, name))
            else:
                left.discard(name)
    for piece, name in suspects:
        if name in left and name in piece.globals_read:
            left.discard(name)
    for piece in pieces:
        if left and not left.isdisjoint(_quoted(piece.text, left)):
            left -= piece.globals_read
    return frozenset(candidates - left)


def _quoted(text: str, names: Set[str]) -> set[str]:
    """The names in strings of `text` that may be annotations."""
    if not any(name in text for name in names):
        return set()
    strings = " ".join(double or single for double, single in _MAY_BE_ANNOTATION.findall(text))
    return set(_NAMED.findall(strings))


@functools.lru_cache(maxsize=4096)
def _occurrences(name: str) -> re.Pattern[str]:
    # The boundary before the name last: a pattern that begins with letters is found at the speed of
    # str.find.
    return re.compile(rf"{re.escape(name)}(?<!\w{re.escape(name)})\b")


def _binds(text: str, start: int, end: int) -> bool:
    """Whether the name at `start` is bound there.

    It may be a parameter, a target or an import.
    """
    if _STATEMENT_BEFORE.search(text, max(start - 12, 0), start):
        return True
    before = start
    while before and text[before - 1] in " \t":
        before -= 1
    # A parameter or a target stands at the start of a statement or of an entry.
    may_begin = not before or text[before - 1] in "(,*[;\n"
    return may_begin and _BEHIND_TARGET.match(text, end) is not None
