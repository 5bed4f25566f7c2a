"""Which base each class is derived from, so that the classes and their imports take fewest lines.

A class that is shorter over the base of another file may cost more: that base has to be imported,
and a list of imports that is longer than a line takes a line for each name.  And what a file has
otherwise than the model, the converter brings along with the classes that read it, so that it has
to be declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.adopt.layout import import_length

_MOST_ROUNDS = 4
_Chosen = Mapping[str, "Option"]


@dataclass(frozen=True)
class Option:
    """One way to declare a class: the lines that it takes over the class `base` of a module.

    `is_same` says that the module's class is this one.  Whole it has no module and no base.
    """

    lines: int
    module: str = ""
    base: str = ""
    is_same: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes of a model in order, with the ways to declare each.

    `readers` are the classes that read a class, and `declared` are those that must be declared.
    """

    options: Mapping[str, Sequence[Option]]
    readers: Mapping[str, Sequence[str]]
    declared: frozenset[str]

    def choose(self) -> dict[str, Option]:
        """The option of each class with which all together take fewest lines.

        The first options are taken, then one after the other is exchanged as long as that helps:
        those of a class, or of all classes with bases from one file.
        """
        chosen = {name: every[0] for name, every in self.options.items()}
        for _ in range(_MOST_ROUNDS):
            before = chosen
            for name, every in self.options.items():
                others = ({**chosen, name: one} for one in every if one != chosen[name])
                chosen = min([chosen, *others], key=self._length)
            for module in sorted({one.module for one in chosen.values()} - {""}):
                chosen = min(chosen, self._without(module, chosen), key=self._length)
            if chosen == before:
                break
        return chosen

    def brought(self, chosen: _Chosen) -> frozenset[str]:
        """The classes that the converter brings along as they are in the model."""
        homes: dict[str, frozenset[str]] = dict.fromkeys(self.options, frozenset())
        declared = {name for name, readers in self.readers.items() if not readers}
        declared |= self.declared & homes.keys()
        while True:
            before = dict(homes)
            self._spread(homes, declared, chosen)
            if homes != before:
                continue
            # Classes that read each other are brought if one of them is declared.
            left = [name for name in self._readers_first if not homes[name]]
            if not left:
                return frozenset(homes.keys() - declared)
            declared.add(left[0])

    def _spread(
        self, homes: dict[str, frozenset[str]], declared: set[str], chosen: _Chosen
    ) -> None:
        """Note from which modules each class comes: those of its readers, or else its own.

        What is not the same in all of them has to be declared.
        """
        for name in self._readers_first:
            modules = frozenset[str]().union(*(homes[reader] for reader in self.readers[name]))
            if name in declared or not modules <= self._same[name]:
                declared.add(name)
                modules = frozenset({chosen[name].module})
            homes[name] = modules

    @cached_property
    def _same(self) -> Mapping[str, frozenset[str]]:
        """The modules that have a class of the model."""
        return {
            name: frozenset(one.module for one in every if one.is_same)
            for name, every in self.options.items()
        }

    @cached_property
    def _readers_first(self) -> Sequence[str]:
        """The classes, each behind those that read it."""
        order: dict[str, None] = {}

        def visit(name: str, above: frozenset[str]) -> None:
            for reader in self.readers[name]:
                if reader not in above and reader not in order:
                    visit(reader, above | {reader})
            order[name] = None

        for name in self.options:
            visit(name, frozenset({name}))
        return [*order]

    def _without(self, module: str, chosen: _Chosen) -> dict[str, Option]:
        """`chosen`, with nothing from `module` where there is another option."""
        changed = dict(chosen)
        for name, every in self.options.items():
            others = [one for one in every if one.module != module]
            if chosen[name].module == module and others:
                changed[name] = others[0]
        return changed

    def _length(self, chosen: _Chosen) -> int:
        """The lines of all classes that are declared, and of their imports."""
        brought = self.brought(chosen)
        declared = [one for name, one in chosen.items() if name not in brought]
        return sum(one.lines for one in declared) + _import_lines(declared)


def _import_lines(options: Iterable[Option]) -> int:
    names: dict[str, set[str]] = {}
    for one in options:
        if one.base:
            names.setdefault(one.module, set()).add(one.base)
    return sum(import_length(module, imported) for module, imported in names.items())
