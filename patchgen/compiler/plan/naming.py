"""Decide what a symbol is called in the flat files, and where it comes from there.

In: a canonical symbol and the module whose code mentions it.  Out: a `Resolution`: defined in the
output of some kind, or imported.

    class MyMLP(llama.LlamaMLP): ...    # LlamaMLP of modeling_llama becomes MyMLP
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import kind_of_module
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location

_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a symbol is found in the flat files.

    `key` is the definition that the flat file carries as `name`; without a key, the name is
    imported from where the symbol says.  `kind` is the file that carries it, None for each that
    needs it.
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
    _replaced: dict[str, dict[str, Symbol]] = field(default_factory=dict, repr=False, compare=False)

    def resolve(self, symbol: Symbol, home: str) -> Resolution:
        """Where code that stands in module `home` finds `symbol` in the flat files."""
        # Code that is written on top of the parent may mean the parent itself.
        above = self.plan.layer(home) < self.plan.layer(symbol.module)
        # Only these facts about `home` matter, so few results are computed.
        from_layer = home in self._layer_modules
        from_its_own = home == symbol.module
        key = (symbol, from_layer, from_its_own, above)
        if key not in self._known:
            aside = self.aside(symbol) if above else None
            if aside is None:
                self._known[key] = self._find(symbol, from_layer, from_its_own)
            else:
                self._known[key] = Resolution(symbol, aside, self._kind_aside(symbol))
        return self._known[key]

    def aside(self, symbol: Symbol) -> str | None:
        """The private name of a parent's definition that is replaced in the flat file, and named.

        Only the modular code means the parent's; all other code gets the new one.  None for any
        other definition.
        """
        if self.plan.subclass_of(symbol) is None and symbol not in self.plan.named:
            return None
        # Without the subclass, this is what code of its own module would find.
        place = self._find(symbol, symbol.module in self._layer_modules, True)
        if place.key is None or place.key == symbol:
            return None
        return self._private(symbol, place.name)

    def _private(self, symbol: Symbol, name: str) -> str:
        """`_LlamaMLPParent`, `_rotate_half_parent`, numbered where that is something else."""
        # The name must be free in every text that the flat file can carry.
        modules = {*self._layer_modules, *self.plan.parents, symbol.module}
        text = "".join(self._index(module).source.text for module in sorted(modules))
        ending = "_PARENT" if name.isupper() else "_parent" if name.islower() else "Parent"
        wanted = f"_{name.lstrip('_')}{ending}"
        # Each layer can have a parent of this name: the number tells them apart.
        layers = len(self.plan.layers)
        number = layers - self.plan.layer(symbol.module) + 1
        found = wanted
        if number > 1:
            found = f"{wanted}{number}"
        # Steps of as many as there are layers never meet the number of another layer.
        while found in text:
            number += layers
            found = f"{wanted}{number}"
        return found

    def _index(self, module: str) -> ModuleIndex:
        """The blocks of a modular file or of a module below the roots."""
        for layer in self.plan.layers:
            if layer.source.module == module:
                return layer
        return self.bindings.env.index(module, _NOWHERE)

    def _kind_aside(self, symbol: Symbol) -> str | None:
        """The kind of output that holds a parent which was put aside."""
        heir = self.plan.subclass_of(symbol)
        # It stands where its subclass needs it.
        return None if heir is None else heir.kind

    def renamed_classes(self, module: ModuleIndex) -> dict[str, str]:
        """The class names that code of `module` may mention in strings, with what they become."""
        home = module.source.module
        if home not in self._renames:
            self._renames[home] = self._find_renamed_classes(module)
        return self._renames[home]

    def _find_renamed_classes(self, module: ModuleIndex) -> dict[str, str]:
        """As `renamed_classes`, computed anew."""
        home = module.source.module
        package = home.rpartition(".")[0]
        symbols: list[Symbol] = []
        for parent in self.plan.prefixes:
            # A configuration's docstring shows the model that it configures.
            if parent.rpartition(".")[0] == package:
                classes = self.bindings.env.index(parent, _NOWHERE).classes
                symbols += [Symbol(parent, name) for name in classes]
        for item in module.imports:
            if item.name:
                symbols.append(self.bindings.imported_symbol(module, item))
        # Only classes of a source get other names.
        of_sources = [symbol for symbol in symbols if symbol.module in self.plan.prefixes]
        renames: dict[str, str] = {}
        for symbol in of_sources:
            new = self.resolve(symbol, home).name
            if new != symbol.name:
                renames[symbol.name] = new
        return renames

    def replaced_imports(self, module: ModuleIndex) -> dict[str, Symbol]:
        """What a modular file defines in place of what a parent imports.

        parent:   from ...masking_utils import create_causal_mask
        modular:  def create_causal_mask(config, **kwargs): ...
        """
        home = module.source.module
        if home not in self._replaced:
            self._replaced[home] = self._find_replaced_imports(module)
        return self._replaced[home]

    def _find_replaced_imports(self, module: ModuleIndex) -> dict[str, Symbol]:
        """As `replaced_imports`, computed anew."""
        home = module.source.module
        # Nothing takes the place of what a modular file or a mixin imports.
        is_parent = home in self._base_kinds or home in self.plan.prefixes
        if not is_parent:
            return {}
        names: set[str] = set()
        for block in module.blocks:
            names.update(item.bound for item in block.imports)
        replaced: dict[str, Symbol] = {}
        for name in sorted(names):
            place = self._declared(name)
            if place is not None and place.key is not None:
                replaced[name] = place.key
        return replaced

    @functools.cached_property
    def _layer_modules(self) -> frozenset[str]:
        """The names of the modular files."""
        return frozenset(layer.source.module for layer in self.plan.layers)

    @functools.cached_property
    def _base_kinds(self) -> dict[str, str]:
        """The kind of output that follows each module."""
        return {module: kind for kind, module in self.plan.bases.items()}

    def _find(self, symbol: Symbol, from_layer: bool, from_its_own: bool) -> Resolution:
        """As `resolve`, where no parent is put aside."""
        module, name = symbol.module, symbol.name
        imported = Resolution(None, name)
        # A module itself is always imported.
        if not name:
            return imported
        if module in self._layer_modules:
            return self._declared(name) or Resolution(symbol, name)
        if module in self._base_kinds:
            return self._declared(name) or Resolution(symbol, name, self._base_kinds[module])
        # A source: its classes get the new prefix.
        if module in self.plan.prefixes:
            return self._renamed(symbol)
        if not self.bindings.flatten_scope.flattens(module):
            return imported
        is_of_other_model = module.startswith(f"{MODELS}.") and not from_its_own
        if is_of_other_model and self._stays_there(symbol, from_layer):
            return imported
        return Resolution(symbol, name)

    def _stays_there(self, symbol: Symbol, from_layer: bool) -> bool:
        """Whether what is used of another model stays in its file, and is imported.

        A class that is only used does, and so does what parents import.  A function that a modular
        file uses is carried, and brings what it uses of its own module.
        """
        return not from_layer or self._is_class(symbol)

    def _declared(self, name: str) -> Resolution | None:
        """The definition of `name` in the nearest layer that has one: it replaces a parent's."""
        # Each output has an `__all__` of its own.
        if name == "__all__":
            return None
        for layer in self.plan.layers:
            if layer.definition(name) is None:
                continue
            symbol = Symbol(layer.source.module, name)
            declaration = self.plan.declaration(symbol)
            # Functions and constants have no kind of their own.
            kind = None if declaration is None else declaration.kind
            return Resolution(symbol, name, kind)
        return None

    def _renamed(self, symbol: Symbol) -> Resolution:
        """What a definition of a source is called under the prefix of its module."""
        # Functions and constants keep their names.
        if not self._is_class(symbol):
            return self._declared(symbol.name) or Resolution(symbol, symbol.name)
        prefix = self.plan.prefixes[symbol.module]
        name = symbol.name
        if prefix:
            name = prefix.apply(name)
        declared = self._declared(name)
        # Equal by chance, which the linker refuses.
        is_by_chance = (
            declared is not None and name == symbol.name and not self._derives(declared, symbol)
        )
        if declared is None or is_by_chance:
            return Resolution(symbol, name, kind_of_module(symbol.module))
        return declared

    def _derives(self, place: Resolution, symbol: Symbol) -> bool:
        """Whether the class at `place` is declared over the parent `symbol`."""
        if place.key is None:
            return False
        declaration = self.plan.declaration(place.key)
        return declaration is not None and symbol in declaration.parents

    def _is_class(self, symbol: Symbol) -> bool:
        """Whether a class statement defines `symbol`."""
        block = self.bindings.env.index(symbol.module, _NOWHERE).definition(symbol.name)
        return block is not None and block.kind == "class"
