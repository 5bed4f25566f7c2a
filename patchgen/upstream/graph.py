"""Find which definitions need which, in the modular file and in the files that it derives from.

Every identifier that names a definition counts, also attributes and keywords.  In: the facts of the
files, with the renaming under which each is seen.  Out: a `Graph` for each, which is filled from
several files and then queried; and the order in which what a class needs stands in an output:
dependencies before the class.  A definition is renamed, and its identifiers are looked for, only
when it is reached.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.upstream.facts import Block, FileFacts, ImportText, What, read_facts
from patchgen.upstream.imports import NamedText
from patchgen.upstream.names import (
    KIND_OF_FILE,
    KINDS,
    NameTable,
    Renaming,
    choose,
    prefix_of,
    without_collision,
)
from patchgen.upstream.tokens import Words

Needs = Callable[[str], Set[str]]
# A value of the modular file counts for the parent's classes only if it is documentation (hubert,
# sew).
_OVERRIDING = re.compile("_CHECKPOINT|_EXPECTED|_FOR_DOC|_HIDDEN_STATES_START_POSITION")


@dataclass(frozen=True)
class View:
    """One file as it reads after renaming; the modular file's own view renames nothing."""

    renaming: Renaming | None
    model: str

    def text(self, text: str) -> str:
        """A piece of the file as its outputs have it."""
        renaming = self.renaming
        if renaming is None:
            return text
        text = renaming.apply(text)
        if renaming.new != self.model and "from ." in text:
            # `.configuration_emu3_text` is no file: imports go back to the model's own (emu3).
            text = _siblings(renaming.new).sub(rf"\g<1>{self.model}", text)
        return text

    def name(self, name: str) -> str:
        """An identifier as the outputs have it."""
        return name if self.renaming is None else self.renaming.name(name)

    def names(self, names: frozenset[str]) -> frozenset[str]:
        """Identifiers as the outputs have them."""
        return names if self.renaming is None else frozenset(map(self.renaming.name, names))


@functools.lru_cache(maxsize=1024)
def _siblings(model: str) -> re.Pattern[str]:
    return re.compile(rf"(\bfrom \.(?:{'|'.join(KINDS)})_){re.escape(model)}(?= import\b)")


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
        self.nodes: dict[str, Node] = {}
        self.positions: dict[str, int] = {}
        self.origins: dict[str, Graph] = {}
        for block in facts.blocks.values():
            name = view.name(block.name)
            # Two names may become one by renaming: the last text counts, at the first place.
            self.nodes[name] = Node(block, view)
            self.positions.setdefault(name, block.position)
        self._followers = {
            view.name(name): frozenset(map(view.name, targets))
            for name, targets in facts.followers.items()
        }
        self._closed: dict[str, frozenset[str]] = {}
        self._settled: Mapping[str, Node] = self.nodes

    def see(self, modular: Graph, siblings: frozenset[str]) -> None:
        """Add what the modular file defines, without classes and values that this file defines."""
        for name, node in modular.nodes.items():
            takes = name not in self.nodes
            match node.block.what:
                case What.FUNCTION:
                    takes = True
                case What.ASSIGNMENT:
                    takes = takes or _is_overriding(node.block)
                case What.CLASS:
                    takes = takes and name not in siblings
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

    def needs(self, identifiers: frozenset[str]) -> frozenset[str]:
        """What code with these identifiers needs.

        That is what it mentions, and everything that the functions and values among it need.
        """
        mentioned = identifiers & self.nodes.keys()
        needed = (self.closed(name) for name in mentioned if not self.nodes[name].is_class)
        return mentioned.union(*needed)

    def closed(self, name: str) -> frozenset[str]:
        """Everything that a function or value needs, directly or not.

        Classes are part of the answer, but what they need is not.
        """
        # Not by a cache around the method: `settle` and `adopt` change what is remembered.
        closed = self._closed.get(name)
        if closed is None:
            closed = self._closed[name] = frozenset(self._walk(name)) - {name}
        return closed

    def _walk(self, start: str) -> Iterator[str]:
        """`start` and what it needs, each name once."""
        seen = {start}
        left = [start]
        while left:
            name = left.pop()
            yield name
            # Classes are ends: what they need is placed with them.
            if name == start or not self._settled[name].is_class:
                # Whoever needs a table also needs the statements that fill it.
                named = self._settled[name].words.all | self._followers.get(name, frozenset())
                fresh = (named & self._settled.keys()) - seen
                seen |= fresh
                left.extend(fresh)

    def rank(self, name: str) -> tuple[float, str]:
        """By what its definitions are sorted: what it does not define comes behind, by name."""
        return (self.positions.get(name, float("inf")), name)


def _is_overriding(block: Block) -> bool:
    if _OVERRIDING.search(block.name):
        return True
    return "_DOCSTRING" in block.name and block.text.partition("=")[2].strip() != "None"


def own_order(names: Set[str], modular: Graph) -> list[str]:
    """The order of what a class without a parent in another model needs.

    First come definitions from other files, file by file, in the alphabetical order of the files'
    first names.
    """
    origins = modular.origins
    # Sorted names, because the order of a set differs from run to run.
    used = [origins[name] for name in sorted(names) if name in origins]
    sources = list(dict.fromkeys(used))

    def rank(name: str) -> tuple[float, float, str]:
        source = origins.get(name)
        if source is None:
            return (len(sources), *modular.rank(name))
        group = sources.index(source)
        return (group, *source.rank(name))

    return sorted(names, key=rank)


def inherited_order(names: Set[str], parent: Graph, modular: Graph, needs: Needs) -> list[str]:
    """The order of what a class needs of its parent's file.

    Classes with their dependencies come first, then the rest.
    """
    classes = [name for name in names if parent.nodes[name].is_class]
    classes.sort(key=parent.rank)
    listed: dict[str, None] = {}
    for name in classes:
        missing = names - listed.keys()
        required = needs(name) & missing
        # Places in two files cannot be compared: the parent's definitions come first.
        of_parent = required & parent.positions.keys()
        first = sorted(of_parent, key=parent.rank)
        listed |= dict.fromkeys(first)
        remaining = required - of_parent
        listed |= dict.fromkeys(sorted(remaining, key=modular.rank))
        listed[name] = None
    rest = names - listed.keys()
    of_modular = rest & modular.positions.keys()
    # Names that the parent file has from elsewhere come in reverse alphabetical order, which is how
    # it happens to be.
    others = sorted(rest - of_modular, reverse=True)
    others.sort(key=lambda name: parent.rank(name)[0])
    last = sorted(of_modular, key=modular.rank)
    return [*listed, *others, *last]


def reached(start: Iterable[str], parent: Graph, needs: Needs, placed: Set[str]) -> set[str]:
    """`start` and everything that its classes need, directly or not, without what is `placed`."""
    names: set[str] = set()
    left = list(start)
    while left:
        name = left.pop()
        if name not in names and name not in placed:
            names.add(name)
            # What functions and values need is in `needs` already.
            if parent.nodes[name].is_class:
                left.extend(needs(name))
    return names


@dataclass(frozen=True)
class Parent:
    """A file of another model as the outputs see it.

    `siblings` are the names that it imports from files beside it.
    """

    kind: str
    facts: FileFacts
    view: View
    graph: Graph
    siblings: frozenset[str]

    @functools.cached_property
    def imports(self) -> tuple[ImportText, ...]:
        """Its imports, those from its own model renamed."""
        return tuple(
            ImportText(text.leading, self.view.text(text.text), text.guard)
            if "from ." in text.text
            else text
            for text in self.facts.imports
        )


def make_parents(
    facts: FileFacts, model: str, models: Path, read: Callable[[Path], str | None], table: NameTable
) -> Mapping[tuple[str, ...], Parent]:
    """The parents of the modular file, in the order in which it imports them.

    Raises PatchgenError PG603 where one is missing, PG605 where a class has two.
    """
    # By module: the classes with the parent's that they derive from, and the line of the import.
    pairs: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    lines: dict[tuple[str, ...], int] = {}
    for imported in facts.model_imports:
        pairs[imported.module] = []
        lines.setdefault(imported.module, imported.line)
    module_of = {imported.name: imported.module for imported in facts.model_imports}
    for block in facts.blocks.values():
        if block.what is not What.CLASS:
            continue
        bases = [base for base in block.bases if base in module_of]
        # Only the text of one class can stand in the place of the base.
        if len(bases) > 1:
            what = f"class `{block.name}` derives from two classes of other models: "
            what += " and ".join(bases)
            hint = "derive from one of them and repeat what is needed of the other"
            raise PatchgenError("PG605", Location(facts.path, block.line, 1), what, hint)
        for base in bases:
            pairs[module_of[base]].append((block.name, base))
    parents: dict[tuple[str, ...], Parent] = {}
    for module, declared in pairs.items():
        path = models.joinpath(*module).with_suffix(".py")
        text = read(path)
        if text is None:
            what = f"imports from {'.'.join(module)}, which does not exist"
            hint = "look for it under `models/`; if another modular file gives it, convert that too"
            raise PatchgenError("PG603", Location(facts.path, lines[module], 1), what, hint)
        renaming = _choose_renaming(module[-2], model, declared, text, table)
        view = View(renaming, model)
        parent_facts = read_facts(text, path.as_posix())
        kind = KIND_OF_FILE.match(module[-1])
        parents[module] = Parent(
            kind[1] if kind else "",
            parent_facts,
            view,
            Graph(view, parent_facts),
            view.names(frozenset(parent_facts.siblings)),
        )
    return parents


def _choose_renaming(
    old: str, model: str, pairs: list[tuple[str, str]], text: str, table: NameTable
) -> Renaming:
    """The renaming of the model `old`, whose file is `text`, that the classes in `pairs` show."""
    # Without a class of its own, the file gets the model's name.
    if not pairs:
        return Renaming(old, model, table)
    cased = table.cased(model)
    cased_old = table.cased(old)
    prefix = choose((prefix_of(name, base, cased, cased_old) for name, base in pairs), cased)
    return Renaming(old, table.lower(without_collision(prefix, cased, cased_old, text)), table)
