"""The layers of a module: classes with an attention, held in a ModuleList that a forward runs.

If lists are nested, as stages of blocks, the innermost has the layers.  Its experts stand here too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, dotted, last, walk
from patchgen.author.anatomy.module import LISTS, Class, Module

CHECKPOINTED = "GradientCheckpointingLayer"


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of one module."""

    module: Module
    attentions: Attentions

    @cached_property
    def attending(self) -> frozenset[str]:
        """The classes that compute an attention, or hold such a class."""
        names = {chain.owner.name for chain in self.attentions.chains}
        names |= {interface.owner.name for interface in self.attentions.interfaces}
        names |= {one.owner.name for one in self.attentions.missed if one.attention}
        names |= {name for name in self.module.classes if "ttention" in name}
        size = 0
        while size < len(names):
            size = len(names)
            names |= {n for n, owner in self.module.classes.items() if self._holds(owner, names)}
        return frozenset(names)

    def _holds(self, owner: Class, names: Collection[str]) -> bool:
        """Whether `owner` has a class of `names` as a base or in an attribute."""
        reached = [parent.name for parent in owner.parents]
        for attribute, values in owner.attributes.items():
            reached += owner.held(attribute)
            for value in values:
                # `TABLE[NAME](...)` creates one of the classes in the table.
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Subscript):
                    reached += self.module.tables.get(dotted(value.func.value), {}).values()
        return not set(names).isdisjoint(reached)

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """The classes in the innermost lists of layers."""
        every: dict[Class, None] = {}
        owners = set()
        for owner in self.module.classes.values():
            for attribute, values in owner.attributes.items():
                if any(last(called(value)) in LISTS for value in values):
                    layers = filter(self._is_layer, self.module.held(owner, attribute))
                    if members := dict.fromkeys(layers):
                        owners.add(owner)
                        every |= members
        return tuple(layer for layer in every if owners.isdisjoint(self.inside([layer])))

    def _is_layer(self, layer: Class) -> bool:
        """Whether a class holds an attention, and is none itself: XLM has a list of attentions."""
        attends = layer.name in self.attending and layer.method("forward") is not None
        return attends and self._holds(layer, self.attending - {layer.name})

    def inside(self, layers: Iterable[Class]) -> tuple[Class, ...]:
        """The layers, every class of the module that they hold at any depth, and their bases."""
        seen: set[Class] = set()
        todo = list(layers)
        while todo:
            owner = todo.pop()
            if owner not in seen:
                seen.add(owner)
                todo += [*self.module.held(owner), *owner.parents]
        return tuple(owner for owner in self.module.classes.values() if owner in seen)

    @cached_property
    def checkpointed(self) -> tuple[Class, ...]:
        """The layers that transformers can checkpoint already, whatever they compute."""
        return tuple(one for one in self.module.classes.values() if one.descends(CHECKPOINTED))


def experts(module: Module) -> dict[Class, str]:
    """The classes that hold experts, in the order of the file, and how each runs them.

    By the "interface" of transformers, in a "loop", "dense" (every expert gets every token) or
    "gathered" (the rows of the best experts are read from a table).
    """
    kinds = {owner: _kind(owner) for owner in module.classes.values()}
    return {owner: kind for owner, kind in kinds.items() if kind}


def _kind(owner: Class) -> str:
    if any("use_experts_implementation" in ast.unparse(d) for d in owner.node.decorator_list):
        return "interface"
    body = owner.own["forward"].body if "forward" in owner.own else []
    for loop in walk(body, ast.For):
        if "expert" in ast.unparse(loop.target) + ast.unparse(loop.iter):
            return "loop"
    functions = {last(called(call)) for call in walk(body, ast.Call)}
    if "expert" in owner.name.lower() and "bmm" in functions:
        return "dense"
    tables = {n for n in owner.attributes if "Embedding" in owner.held(n)}
    return "gathered" if "topk" in functions and functions & tables else ""
