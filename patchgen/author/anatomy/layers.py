"""The layers of a module: classes with an attention, held in a ModuleList that a forward runs.

If lists are nested, as stages of blocks, the innermost has the layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, dotted, last
from patchgen.author.anatomy.holding import LISTS, held
from patchgen.author.anatomy.module import Class, Module
from patchgen.facts import modules

CHECKPOINTED = modules.CHECKPOINTED


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of one module."""

    module: Module
    attentions: Attentions

    @cached_property
    def attending(self) -> frozenset[str]:
        """The classes that compute an attention, or hold such a class."""
        found = {one.owner.name for one in self.attentions.chains}
        found |= {one.owner.name for one in self.attentions.interfaces}
        found |= {one.owner.name for one in self.attentions.missed if one.attention}
        found |= {name for name in self.module.classes if "ttention" in name}
        size = 0
        while size < len(found):
            size = len(found)
            for owner in self.module.classes.values():
                if self._holds(owner, found):
                    found.add(owner.name)
        return frozenset(found)

    def _holds(self, owner: Class, found: set[str]) -> bool:
        """Whether `owner` has a class of `found` as a base or in an attribute."""
        if any(parent.name in found for parent in owner.parents):
            return True
        for attribute, values in owner.attributes.items():
            if not found.isdisjoint(held(owner, attribute)):
                return True
            for value in values:
                # `TABLE[NAME](...)` creates one of the classes in the table.
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Subscript):
                    table = self.module.tables.get(dotted(value.func.value), {})
                    if not found.isdisjoint(table.values()):
                        return True
        return False

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """The classes in the innermost lists of layers."""
        lists = [
            (owner.name, layers)
            for owner in self.module.classes.values()
            for attribute in owner.attributes
            if (layers := self._members(owner, attribute))
        ]
        owners = {name for name, _ in lists}
        every = dict.fromkeys(layer for _, layers in lists for layer in layers)
        return tuple(
            one for one in every if owners.isdisjoint(inner.name for inner in self.inside([one]))
        )

    def inside(self, layers: Iterable[Class]) -> tuple[Class, ...]:
        """The layers, every class of the module that they hold at any depth, and their bases."""
        seen: set[str] = set()
        todo = list(layers)
        while todo:
            one = todo.pop()
            if one.name not in seen:
                seen.add(one.name)
                names = [name for attribute in one.attributes for name in held(one, attribute)]
                todo += [self.module.classes[n] for n in names if n in self.module.classes]
                todo += one.parents
        return tuple(one for name, one in self.module.classes.items() if name in seen)

    def _members(self, owner: Class, attribute: str) -> tuple[Class, ...]:
        if not any(last(called(value)) in LISTS for value in owner.attributes[attribute]):
            return ()
        names = dict.fromkeys(held(owner, attribute))
        return tuple(
            self.module.classes[name]
            for name in names
            if name in self.attending and self._is_layer(self.module.classes[name])
        )

    def _is_layer(self, one: Class) -> bool:
        """Whether a class holds an attention, and is none itself: XLM has a list of attentions."""
        return one.method("forward") is not None and self._holds(
            one, set(self.attending) - {one.name}
        )

    @cached_property
    def checkpointed(self) -> tuple[Class, ...]:
        """The layers that transformers can checkpoint already, whatever they compute."""
        return tuple(one for one in self.module.classes.values() if one.descends(CHECKPOINTED))

    @cached_property
    def checkpointed_or_held(self) -> frozenset[str]:
        """The classes that transformers can checkpoint already, and what they hold at any depth.

        A `T5Block` is checkpointed, and holds its attentions and FFN in a list of layers.
        """
        return frozenset(one.name for one in self.inside(self.checkpointed))
