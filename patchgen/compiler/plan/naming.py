"""What a symbol is called in the flat files, and where it comes from there.

In: a canonical symbol and the module whose code mentions it.  Out: a `Resolution`: defined in the output of some kind, or
imported.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.compiler.plan.flatten_scope import MODELS
from patchgen.compiler.plan.kinds import kind_of_module
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location
from patchgen.syntax.blocks import ModuleIndex

_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class Resolution:
    """`key` is the definition that the flat file carries as `name`; `kind` is its file, or None where it is needed.

    A place without a key is imported from where the symbol says.
    """

    key: Symbol | None
    name: str
    kind: str | None = None


@dataclass(frozen=True)
class Naming:
    """The names of one plan's flat files."""

    plan: ModulePlan
    bindings: Bindings
    _known: dict[tuple[Symbol, bool, bool, bool], Resolution] = field(
        default_factory=dict, repr=False, compare=False
    )
    _renames: dict[str, dict[str, str]] = field(default_factory=dict, repr=False, compare=False)

    def resolve(self, symbol: Symbol, home: str) -> Resolution:
        """Where code that stands in module `home` finds `symbol` in the flat files."""
        above = self.plan.layer(home) < self.plan.layer(symbol.module)
        key = (symbol, home in self._layer_modules, home == symbol.module, above)
        if key not in self._known:
            aside = self.aside(symbol) if above else None
            self._known[key] = (
                self._find(*key[:3])
                if aside is None
                else Resolution(symbol, aside, self._kind_aside(symbol))
            )
        return self._known[key]

    def aside(self, symbol: Symbol) -> str | None:
        """The name of a parent that another class of the flat file has taken the place of, and is a subclass of.

        Only what is written on top of the parent means it; for all other code it is its subclass.  None for classes
        that are not of this kind.
        """
        if self.plan.subclass_of(symbol) is None:
            return None
        place = self._find(symbol, symbol.module in self._layer_modules, True)
        if place.key is None or place.key == symbol:
            return None
        return self._private(symbol, place.name)

    def _private(self, symbol: Symbol, name: str) -> str:
        """`_LlamaMLPParent`, numbered where that means something else."""
        modules = (*self._layer_modules, *self.plan.parents, symbol.module)
        text = "".join(self._index(module).source.text for module in sorted(set(modules)))
        wanted = f"_{name.lstrip('_')}Parent"
        number = len(self.plan.layers) - self.plan.layer(symbol.module) + 1
        while (found := wanted if number == 1 else f"{wanted}{number}") in text:
            number += len(self.plan.layers)
        return found

    def _index(self, module: str) -> ModuleIndex:
        layer = next((layer for layer in self.plan.layers if layer.source.module == module), None)
        return layer or self.bindings.env.index(module, _NOWHERE)

    def _kind_aside(self, symbol: Symbol) -> str | None:
        heir = self.plan.subclass_of(symbol)
        return heir.kind if heir else None

    def renamed_classes(self, module: ModuleIndex) -> dict[str, str]:
        """The class names that code of `module` may mention in strings, with what they become."""
        home = module.source.module
        if home not in self._renames:
            # A configuration's docstring shows the model that it configures.
            package = home.rpartition(".")[0]
            beside = [m for m in self.plan.prefixes if m.rpartition(".")[0] == package]
            symbols = [
                Symbol(m, name)
                for m in beside
                for name in self.bindings.env.index(m, _NOWHERE).classes
            ]
            symbols += [
                self.bindings.imported_symbol(module, i)
                for b in module.blocks
                for i in b.imports
                if i.name
            ]
            placed = [
                (s.name, self.resolve(s, home).name)
                for s in symbols
                if s.module in self.plan.prefixes
            ]
            self._renames[home] = {old: new for old, new in placed if old != new}
        return self._renames[home]

    @functools.cached_property
    def _layer_modules(self) -> frozenset[str]:
        return frozenset(layer.source.module for layer in self.plan.layers)

    @functools.cached_property
    def _base_kinds(self) -> dict[str, str]:
        return {module: kind for kind, module in self.plan.bases.items()}

    def _find(self, symbol: Symbol, from_layer: bool, from_its_own: bool) -> Resolution:
        module, name = symbol.module, symbol.name
        imported = Resolution(None, name)
        if not name:
            return imported
        if module in self._layer_modules:
            return self._declared(name) or Resolution(symbol, name)
        if module in self._base_kinds:
            return self._declared(name) or Resolution(symbol, name, self._base_kinds[module])
        if module in self.plan.prefixes:
            return self._renamed(symbol)
        if not self.bindings.flatten_scope.flattens(module):
            return imported
        # A class of another model that is used and not derived from stays where it is, and so does what parents
        # import; a function that is carried brings what it uses of its own module.
        stays = not from_layer or self._is_class(symbol)
        if module.startswith(f"{MODELS}.") and stays and not from_its_own:
            return imported
        return Resolution(symbol, name)

    def _declared(self, name: str) -> Resolution | None:
        """The definition of `name` in the nearest layer that has one: it takes the place of a parent's."""
        for layer in self.plan.layers:
            block = layer.definition(name)
            if block is None or name == "__all__":
                continue
            symbol = Symbol(layer.source.module, name)
            declaration = self.plan.declaration(symbol)
            return Resolution(symbol, name, declaration.kind if declaration else None)
        return None

    def _renamed(self, symbol: Symbol) -> Resolution:
        prefix = self.plan.prefixes[symbol.module]
        if not self._is_class(symbol):
            return self._declared(symbol.name) or Resolution(symbol, symbol.name)
        name = prefix.apply(symbol.name) if prefix else symbol.name
        declared = self._declared(name)
        if declared is not None and name == symbol.name and not self._derives(declared, symbol):
            declared = None  # a chance likeness of names, which the linker refuses
        return declared or Resolution(symbol, name, kind_of_module(symbol.module))

    def _derives(self, place: Resolution, symbol: Symbol) -> bool:
        declaration = self.plan.declaration(place.key) if place.key else None
        return declaration is not None and symbol in declaration.parents

    def _is_class(self, symbol: Symbol) -> bool:
        block = self.bindings.env.index(symbol.module, _NOWHERE).definition(symbol.name)
        return block is not None and block.kind == "class"
