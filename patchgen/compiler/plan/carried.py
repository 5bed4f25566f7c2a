"""Answer what a name of a modular file or of a parent stands for, as far as a flat file carries it.

In: a reference and its module.  Out: the symbol, whether the flat file may carry its definition,
and what kind of thing it is: a function or class, a value that cannot change, or state.

    ACTS = {"gelu": gelu}       ACTS is state; gelu is a function that may be called through it
    LIMIT = 3                   a plain value: nothing can change it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.plain_values import is_plain
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.reads import Reference
from patchgen.syntax.side_effects import read_import_effects

_NOWHERE = Location("")


@dataclass(frozen=True)
class CarriedNames:
    """The names in reach of one modular file; `layers` are the modular files, by module name."""

    bindings: Bindings
    layers: Mapping[str, ModuleIndex]

    def meaning(self, module: ModuleIndex, reference: Reference) -> Symbol | None:
        """What a reference means, with the attributes of flattened modules followed.

        None for a builtin and for the unknown.
        """
        flatten_scope = self.bindings.flatten_scope
        try:
            symbol = self.bindings.meaning(module, reference.name)
            for attribute in reference.attributes:
                # Only a module has attributes that are definitions: `llama.LlamaMLP`.
                if symbol is None or symbol.name:
                    break
                if not flatten_scope.flattens(symbol.module):
                    break
                symbol = self.bindings.canonical(Symbol(symbol.module, attribute), _NOWHERE)
        except PatchgenError:
            return None  # reported where the name is carried
        return symbol

    def carried(self, module: ModuleIndex, references: Iterable[Reference]) -> Iterator[Symbol]:
        """What `references` mean, as far as the flat file may carry it."""
        for reference in references:
            symbol = self.meaning(module, reference)
            if symbol is not None and self.is_carried(symbol):
                yield symbol

    def is_carried(self, symbol: Symbol) -> bool:
        """Whether a flat file may carry the definition of `symbol`."""
        # A module itself is imported, never carried.
        if not symbol.name:
            return False
        if symbol.module in self.layers:
            return True
        if not self.bindings.flatten_scope.flattens(symbol.module):
            return False
        return self.bindings.env.path(symbol.module) is not None

    def blocks(self, symbol: Symbol) -> Iterator[tuple[ModuleIndex, Block]]:
        """The blocks that bind `symbol`; none where its module cannot be read."""
        module = self.layers.get(symbol.module)
        if module is None:
            try:
                module = self.bindings.env.index(symbol.module, _NOWHERE)
            except PatchgenError:
                return
        for block in module.blocks:
            if symbol.name in block.defines:
                yield module, block

    def is_state(self, symbol: Symbol) -> bool:
        """Whether a name is no function, class or plain value, but an object that can change."""
        for _, block in self.blocks(symbol):
            if block.kind not in ("def", "class") and not is_plain(block):
                return True
        return False

    def is_plain(self, symbol: Symbol) -> bool:
        """Whether a name stands for values that cannot change, whichever statement binds it."""
        return all(is_plain(block) for _, block in self.blocks(symbol))

    def is_of_own_class(self, symbol: Symbol) -> bool:
        """Whether a carried class or function made the value of a name.

        Then its operators and properties are code of the parents.
        """
        for module, block in self.blocks(symbol):
            if block.kind != "assign":
                continue
            called = read_import_effects(block.text).called
            # `RULES = Registry()`: the class that makes the value.
            makers = [reference for reference in block.references if reference.position in called]
            if any(self.carried(module, makers)):
                return True
        return False

    def runs_for_heirs(self, symbol: Symbol) -> bool:
        """Whether a class runs code for each subclass: `__init_subclass__`, or a metaclass."""
        seen: set[Symbol] = set()
        queue = [symbol]
        while queue:
            base = queue.pop()
            if base in seen:
                continue
            seen.add(base)
            for module, block in self.blocks(base):
                if block.kind != "class":
                    return not is_plain(block)  # what is no class statement may do anything
                if "__init_subclass__" in block.text:
                    return True
                effects = read_import_effects(block.text)
                # `metaclass=ABCMeta` is not carried, and changes nothing here.
                if any(self._carried_at(effects.metaclasses, module, block)):
                    return True
                # A hook is inherited.
                queue += self._carried_at(effects.bases, module, block)
        return False

    def _carried_at(
        self, positions: frozenset[tuple[int, int]], module: ModuleIndex, block: Block
    ) -> Iterator[Symbol]:
        """What stands at some positions of a block, as far as it is carried."""
        references = [item for item in block.references if item.position in positions]
        return self.carried(module, references)
