"""The layers of a module: the class that a ModuleList holds many of, that a forward goes through, with an attention.

Of nested lists (stages of blocks) the innermost counts.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, constant, dotted, last, walk
from patchgen.author.anatomy.holding import LISTS, held
from patchgen.author.anatomy.module import Class, Module

CHECKPOINTED = "GradientCheckpointingLayer"


@dataclass(frozen=True, eq=False)
class LayerList:
    """`owner.attribute` is a list of `layers`, one class or several."""

    owner: Class
    attribute: str
    layers: tuple[Class, ...]


@dataclass(frozen=True, eq=False)
class Layers:
    """The lists of layers in one module."""

    module: Module
    attentions: Attentions

    @cached_property
    def attending(self) -> frozenset[str]:
        """The classes that compute an attention, or hold one that does."""
        found = {one.owner.name for one in self.attentions.chains}
        found |= {one.owner.name for one in self.attentions.interfaces}
        found |= {
            one.owner.name
            for one in self.attentions.missed
            if one.attention or "ttention" in one.owner.name
        }
        found |= {name for name in self.module.classes if "ttention" in name}
        while (
            more := {
                owner.name for owner in self.module.classes.values() if self._holds(owner, found)
            }
            - found
        ):
            found |= more
        return frozenset(found)

    def _holds(self, owner: Class, found: set[str]) -> bool:
        if any(parent.name in found for parent in owner.parents):
            return True
        if any(name in found for attribute in owner.attributes for name in held(owner, attribute)):
            return True
        picked = [
            dotted(value.func.value)
            for values in owner.attributes.values()
            for value in values
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Subscript)
        ]
        return any(
            name in found for table in picked for name in self.module.tables.get(table, {}).values()
        )

    @cached_property
    def lists(self) -> tuple[LayerList, ...]:
        """The innermost lists whose members attend and that some method goes through."""
        every = [
            LayerList(owner, attribute, layers)
            for owner in self.module.classes.values()
            for attribute in owner.attributes
            if (layers := self._members(owner, attribute))
        ]
        inner = {one.owner.name for one in every}
        return tuple(
            LayerList(one.owner, one.attribute, layers)
            for one in every
            if (layers := tuple(layer for layer in one.layers if not self._reaches(layer, inner)))
        )

    def _reaches(self, layer: Class, inner: set[str]) -> bool:
        """Whether `layer` holds a list of layers itself, at any depth."""
        seen: set[str] = set()
        todo = [layer.name]
        while todo:
            name = todo.pop()
            if name in inner:
                return True
            if name in seen or name not in self.module.classes:
                continue
            seen.add(name)
            one = self.module.classes[name]
            todo += [other for attribute in one.attributes for other in held(one, attribute)]
        return False

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
        """Whether a class holds an attention, and is none: models keep lists of those beside lists of FFNs."""
        return one.method("forward") is not None and self._holds(
            one, set(self.attending) - {one.name}
        )

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """The classes of layers, each once."""
        return tuple(dict.fromkeys(layer for one in self.lists for layer in one.layers))

    @cached_property
    def checkpointed(self) -> tuple[Class, ...]:
        """The classes that can be checkpointed already and attend, or are given what does (Zamba), and its mask."""
        found = [one for one in self.module.classes.values() if has_checkpointed(one)]
        return tuple(
            one
            for one in found
            if one.name in self.attending or self.attending and _takes_mask(one)
        )

    @cached_property
    def pieces(self) -> tuple[Class, ...]:
        """The classes of attentions, and of what stands in lists beside theirs: layers that have no class (XLM)."""
        found: list[Class] = []
        for owner in self.module.classes.values():
            lists = [
                a
                for a, values in owner.attributes.items()
                if any(last(called(v)) == LISTS[0] for v in values)
            ]
            names = [name for attribute in lists for name in held(owner, attribute)]
            if any(name in self.attending for name in names):
                found += [
                    self.module.classes[name] for name in names if name in self.module.classes
                ]
        return tuple(dict.fromkeys(one for one in found if one.method("forward") is not None))

    @property
    def has_flag(self) -> bool:
        return self.attentions.flag("supports_gradient_checkpointing")


def _takes_mask(layer: Class) -> bool:
    forward = layer.method("forward")
    return forward is not None and any("mask" in arg.arg for arg in walk(forward.args, ast.arg))


def has_checkpointed(layer: Class) -> bool:
    """Whether `layer` is a GradientCheckpointingLayer already."""
    return layer.descends(CHECKPOINTED)


def is_true(owner: Class, flag: str) -> bool:
    """Whether the class body of `owner` sets `flag`."""
    return constant(owner.settings.get(flag)) is True
