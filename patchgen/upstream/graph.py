"""Find which definitions need which.

Every identifier that names a definition counts, also attributes and keywords.  In: the blocks of a
file, with the renaming under which they are seen.  Out: a `Graph`, which is filled from several
files and then queried.  A definition is renamed, and its identifiers are looked for, only when it
is reached.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from patchgen.upstream.facts import Block, FileFacts, What
from patchgen.upstream.names import KINDS, Renaming
from patchgen.upstream.tokens import Words
from patchgen.upstream.uses import NamedText


class View:
    """One file as it reads after renaming; `source` names it.

    The modular file's own view renames nothing.
    """

    def __init__(self, source: str, renaming: Renaming | None, model: str) -> None:
        self.source = source
        self.renaming = renaming
        self._model = model

    def text(self, text: str) -> str:
        """A piece of the file as its outputs have it."""
        renaming = self.renaming
        if renaming is None:
            return text
        text = renaming.apply(text)
        if renaming.new != self._model and "from ." in text:
            # `.configuration_emu3_text` is no file: imports go back to the model's own (emu3).
            text = _siblings(renaming.new).sub(rf"\g<1>{self._model}", text)
        return text

    def name(self, name: str) -> str:
        """An identifier as the outputs have it."""
        return name if self.renaming is None else self.renaming.name(name)

    def names(self, names: frozenset[str]) -> frozenset[str]:
        """Identifiers as the outputs have them."""
        return names if self.renaming is None else self.renaming.names(names)


@dataclass(frozen=True)
class Node:
    """A definition seen through a view."""

    block: Block
    view: View

    @property
    def is_class(self) -> bool:
        """Whether it is a class; the closure of dependencies does not go through classes."""
        return self.block.what is What.CLASS

    @functools.cached_property
    def piece(self) -> NamedText:
        """It as part of an output, with the lines above it."""
        return NamedText(self.view.text(self.block.leading + self.block.text), self.words)

    @functools.cached_property
    def words(self) -> Words:
        """The names in its code."""
        words = self.block.words
        return Words(self.view.names(words.all), self.view.names(words.read))


class Graph:
    """The definitions that one file's classes can reach, with their places in that file.

    `origins` says from which graph a definition was adopted; that graph may have adopted it too.
    """

    def __init__(self, view: View, facts: FileFacts) -> None:
        self.view = view
        self.nodes: dict[str, Node] = {}
        self.positions: dict[str, int] = {}
        self.origins: dict[str, Graph] = {}
        for block in facts.blocks.values():
            name = view.name(block.name)
            # Two names may become one by renaming: the last text counts, at the first place.
            self.nodes[name] = Node(block, view)
            self.positions.setdefault(name, block.position)
        self._followers = {
            view.name(name): tuple(map(view.name, targets))
            for name, targets in facts.followers.items()
        }
        self._closed: dict[str, frozenset[str]] = {}
        self._settled: Mapping[str, Node] = self.nodes

    def see(self, modular: Graph, siblings: frozenset[str]) -> None:
        """Add what the modular file defines, without classes and values that this file defines."""
        for name, node in modular.nodes.items():
            match node.block.what:
                case What.FUNCTION:
                    takes = True
                case What.ASSIGNMENT:
                    takes = name not in self.nodes or _is_overriding(node.block)
                case What.CLASS:
                    takes = name not in self.nodes and name not in siblings
            if takes:
                self.nodes[name] = node
        # What follows a name in this file counts more.
        self._followers = modular._followers | self._followers

    def settle(self) -> None:
        """Freeze the dependencies of the definitions that are here now.

        Definitions that are adopted later do not change them (evolla).
        """
        self._settled = dict(self.nodes)
        self._closed.clear()

    def adopt(self, name: str, other: Graph, kept: Set[str] = frozenset()) -> None:
        """Copy `name` and what it needs from `other`, replacing definitions of the same names."""
        needs = other.closed(name)
        # What is in `kept` has a definition here that the modular file chose.
        for taken in (*(needs - kept), name):
            self.nodes[taken] = other.nodes[taken]
            self.origins[taken] = other
        self._closed[name] = needs

    def direct(self, name: str) -> frozenset[str]:
        """The settled definitions that `name` mentions."""
        # Whoever needs a table also needs the statements that fill it.
        followers = self._followers.get(name)
        known = self._settled.keys()
        found = self._settled[name].words.all & known
        return found.union(known & set(followers)) if followers else found

    def needs(self, identifiers: frozenset[str]) -> frozenset[str]:
        """What code with these identifiers needs.

        That is what it mentions, and everything that the functions and values among it need.
        """
        found = identifiers & self.nodes.keys()
        return found.union(*(self.closed(name) for name in found if not self.nodes[name].is_class))

    def closed(self, name: str) -> frozenset[str]:
        """Everything that a function or value needs, directly or not.

        Classes are part of the answer, but what they need is not.
        """
        # Not by a cache around the method: `settle` and `adopt` change what is remembered.
        known = self._closed.get(name)
        if known is None:
            known = self._closed[name] = frozenset(self._walk(name)) - {name}
        return known

    def _walk(self, start: str) -> Iterator[str]:
        """`start` and what it needs, each name once."""
        seen, left = {start}, [start]
        while left:
            name = left.pop()
            yield name
            # Classes are ends: what they need is placed with them.
            if name == start or not self._settled[name].is_class:
                fresh = self.direct(name) - seen
                seen |= fresh
                left.extend(fresh)


@functools.lru_cache(maxsize=1024)
def _siblings(model: str) -> re.Pattern[str]:
    return re.compile(rf"(\bfrom \.(?:{'|'.join(KINDS)})_){re.escape(model)}(?= import\b)")


# A value of the modular file counts for the parent's classes only if it is documentation (hubert,
# sew).
_OVERRIDING = re.compile("_CHECKPOINT|_EXPECTED|_FOR_DOC|_HIDDEN_STATES_START_POSITION")


def _is_overriding(block: Block) -> bool:
    if _OVERRIDING.search(block.name):
        return True
    return "_DOCSTRING" in block.name and block.text.partition("=")[2].strip() != "None"
