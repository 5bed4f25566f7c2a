"""Which of some imported names the pieces of an output use, by Python's scopes.

In: the pieces, and names that imports could bind for them.  Out: those that are read where nothing hides them.  Most
are decided by looking at words; a syntax tree is made only of a piece in which a name is also bound (a parameter `pad`,
a local `resize`) or stands in a string that may be an annotation.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from patchgen.source.scopes import references
from patchgen.source.text import parse_text
from patchgen.upstream.tokens import Words, words

_WORD = re.compile(r"[^\W\d]\w*+")
# A string that may be a quoted annotation: after `:`, `->`, `|`, or inside brackets, on one line.
_MAY_BE_ANNOTATION = re.compile(r"[>:|\[,][ \t\n]*+(?:\"([^\"\n\\]++)\"|'([^'\n\\]++)')")
# What stands before and behind a name that may be bound there rather than read.
_BINDS_BEHIND = re.compile(r"[ \t]*(?:=(?!=)|[:,)\]]|in\b)")
_BINDING_WORD = re.compile(r"\b(?:def|for|as|import|del|global)[ \t]+\(?\Z")


@dataclass(frozen=True)
class Piece:
    """A definition of an output: its text with the lines above it, and the names in it."""

    text: str
    words: Words

    def may_bind(self, name: str) -> bool:
        """Whether `name` may be a parameter or a local name somewhere in it; only names in lower case may."""
        if not name.lstrip("_")[:1].islower():
            return False
        text, size = self.text, len(name)
        at = text.find(name)
        while at >= 0:
            if _binds(text, at, at + size):
                return True
            at = text.find(name, at + size)
        return False

    @functools.cached_property
    def globals_read(self) -> frozenset[str]:
        """What Python's scope rules say that it reads; a local import of a name counts as a use of it."""
        tree = parse_text(self.text, "output")
        local = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        return frozenset({reference.name for reference in references(tree.body)} | local)


def make_piece(text: str) -> Piece:
    """The piece of `text`."""
    return Piece(text, words(text))


def used_names(pieces: Sequence[Piece], candidates: Set[str]) -> frozenset[str]:
    """Those of `candidates` that `pieces` read as globals, in code and in quoted annotations."""
    left = set(candidates)
    suspects: list[tuple[Piece, str]] = []
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
    if not any(name in text for name in names):
        return set()
    strings = " ".join(double or single for double, single in _MAY_BE_ANNOTATION.findall(text))
    return set(_WORD.findall(strings))


def _binds(text: str, start: int, end: int) -> bool:
    """Whether the name at `start` stands where a name is bound: as a parameter, a target, an import."""
    before = text[max(start - 8, 0) : start].rstrip(" \t")
    if before[-1:] not in "(,*[;\n" and not _BINDING_WORD.search(text[max(start - 12, 0) : start]):
        return False
    return before[-1:] not in "(,*[;\n" or _BINDS_BEHIND.match(text, end) is not None
