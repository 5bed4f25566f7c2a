"""The definitions by which two versions of a file differ, each of which can be exchanged alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.align.file import read_file
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import Source, make_source

_Nodes = Mapping[str, Sequence[ast.stmt]]


@dataclass(frozen=True)
class Part:
    """A definition in two versions; empty where a file has none.

    `first` and `last` are its lines in the one file; a definition that only the other file has
    would go behind line `last`.
    """

    name: str
    first: int
    last: int
    here: str
    there: str

    def exchanged(self, source: Source) -> str:
        """The text of `source`, the one file, with this definition as the other file has it."""
        lines = [*source.lines]
        lines[self.first - 1 : self.last] = [self.there]
        return "".join(lines)


def changed_definitions(here: Source, there: Source) -> tuple[Part, ...]:
    """The definitions at the top level that differ between both; none for what is no Python."""
    try:
        mine, other = (_definitions(source) for source in (here, there))
    except PatchgenError:
        return ()
    return tuple(_changed(here, there, mine, other, len(here.lines)))


def changed_members(here: Source, there: Source, name: str) -> tuple[Part, ...]:
    """The members of the class `name` that are not the same in both."""
    try:
        nodes = [_definitions(source).get(name) for source in (here, there)]
    except PatchgenError:
        return ()
    classes = [found[-1] for found in nodes if found and isinstance(found[-1], ast.ClassDef)]
    if len(classes) < 2:
        return ()
    mine, other = (_members(source, name) for source in (here, there))
    return tuple(_changed(here, there, mine, other, classes[0].end_lineno or 0))


def _changed(here: Source, there: Source, mine: _Nodes, other: _Nodes, end: int) -> Iterator[Part]:
    for name in dict.fromkeys([*mine, *other]):
        first, last = _lines(mine[name]) if name in mine else (end + 1, end)
        old = here.slice(first, last)
        new = there.slice(*_lines(other[name])) if name in other else ""
        if old != new:
            yield Part(name, first, last, old, new)


def _lines(nodes: Sequence[ast.stmt]) -> tuple[int, int]:
    return first_line(nodes[0]), nodes[-1].end_lineno or 0


def _definitions(source: Source) -> dict[str, tuple[ast.stmt, ...]]:
    file = read_file(make_source(source.text, source.path, source.module))
    return {name: definition.nodes for name, definition in file.definitions.items()}


def _members(source: Source, name: str) -> dict[str, tuple[ast.stmt, ...]]:
    definition = read_file(source).definitions[name]
    return {member: one.nodes for member, one in definition.members.items()}
