"""Decide what a symbol is called in the flat files, and where it comes from there.

In: a canonical symbol and the module whose code mentions it.  Out: a `Resolution`: defined in the
output of some kind, or imported.

    class MyMLP(llama.LlamaMLP): ...    # LlamaMLP of modeling_llama becomes MyMLP
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.compiler.plan.bindings import Bindings, is_kept
from patchgen.compiler.plan.declare import ModulePlan, find_index
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import kind_of_module
from patchgen.facts.decorators import RULES
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.kept import per_object
from patchgen.syntax.statements import changed_names

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


class NameClash(PatchgenError):
    """A PG401 that is none if `symbols` get names with those of their models or packages."""

    def __init__(self, symbols: frozenset[Symbol], at: Location, what: str, hint: str) -> None:
        self.symbols = symbols
        super().__init__("PG401", at, what, hint)


@dataclass(frozen=True, eq=False)
class Naming:
    """The names of one plan's flat files."""

    plan: ModulePlan
    bindings: Bindings
    # What keeps its name, or gets one with that of its model or package: another has the name.
    apart: frozenset[Symbol] = frozenset()

    def resolve(self, symbol: Symbol, home: str) -> Resolution:
        """Where code that stands in module `home` finds `symbol` in the flat files."""
        # Code that is written on top of the parent may mean the parent itself.
        above = self.plan.layer(home) < self.plan.layer(symbol.module)
        # Only these facts about `home` matter, so few results are computed.
        return self._resolve(symbol, home in self.plan.modules, home == symbol.module, above)

    def meaning(self, module: ModuleIndex, name: str) -> Symbol | None:
        """The definition that code of `module` finds under its global `name` in the flat files."""
        replaced = self.replaced_imports(module).get(name)
        symbol = replaced or self.bindings.meaning(module, name)
        if symbol is None:
            return None
        return self.resolve(symbol, module.source.module).key or symbol

    def lesser(self, *symbols: Symbol) -> frozenset[Symbol]:
        """Of things that clash, the one that gets a name with that of its model or package.

        A parent's definition keeps its name rather than that of a model that is only used.  Where
        no definition can get another one, what is imported does, rather than what parents import.
        """
        movable = list(filter(self._may_be_apart, reversed(symbols)))
        movable.sort(key=lambda symbol: symbol.module in self.plan.parents)
        if not movable:
            movable = list(filter(self._may_be_renamed, reversed(symbols)))
            movable.sort(key=self._is_imported_by_parent)
        return frozenset(movable[:1])

    def _may_be_renamed(self, symbol: Symbol) -> bool:
        """Whether an import of `symbol` can bind another name."""
        is_imported = not self.bindings.flatten_scope.flattens(symbol.module)
        is_known = bool(symbol.module) and not is_kept(symbol)
        if not is_imported or not is_known or symbol in self.apart:
            return False
        # The merge knows by their names what a parent's decorators do.
        return symbol.name not in RULES or not self._is_imported_by_parent(symbol)

    def _is_imported_by_parent(self, symbol: Symbol) -> bool:
        for module in self.plan.parents:
            index = self.bindings.env.index(module, _NOWHERE)
            if any(self.bindings.meaning(index, item.bound) == symbol for item in index.imports):
                return True
        return False

    def _may_be_apart(self, symbol: Symbol) -> bool:
        module = symbol.module
        # What the modular file defines, and the file that it changes, have the first right.
        if module in {*self.plan.modules, *self.plan.bases.values()}:
            return False
        if symbol in self.apart or not self.bindings.flatten_scope.flattens(module):
            return False
        index = self.bindings.env.index(module, _NOWHERE)
        # A statement of another form, or one that binds more, cannot be renamed alone.
        for block in index.blocks_that_bind(symbol.name):
            if block.kind not in {"class", "def", "assign"} or block.defines != (symbol.name,):
                return False
        return True

    @per_object
    def _resolve(
        self, symbol: Symbol, from_layer: bool, from_its_own: bool, above: bool
    ) -> Resolution:
        aside = self.aside(symbol) if above else None
        if aside is None:
            return self._find(symbol, from_layer, from_its_own)
        # It stands where its subclass needs it.
        heir = self.plan.subclass_of(symbol)
        return Resolution(symbol, aside, None if heir is None else heir.kind)

    @per_object
    def aside(self, symbol: Symbol) -> str | None:
        """The private name of a parent's definition that the modular file replaces, if it has one.

        TABLE = {**llama.TABLE, "fast": Fast}       llama.TABLE is carried as `_TABLE_PARENT`

        Only the modular code means the parent's; all other code gets the new one.  None for any
        other definition, and for a class that is merged.
        """
        plan = self.plan
        files = {*plan.parents, *plan.modules}
        is_of_parent = symbol.module in files and not self._is_class(symbol)
        if not is_of_parent and plan.subclass_of(symbol) is None:
            return None
        # Without the subclass, this is what code of its own module would find.
        place = self._find(symbol, symbol.module in plan.modules, True)
        if place.key is None or place.key == symbol:
            return None
        return self._private(symbol, place.name)

    def acts_on_replaced(self, module: str, block: Block) -> bool:
        """Whether a statement changes nothing but what the modular file replaces.

        TABLE["x"] = gelu       acts on the parent's TABLE, wherever that is carried
        """
        changed = [] if block.defines else changed_names(block.text)
        found = [self.aside(Symbol(module, name)) for name in changed]
        return bool(found) and all(found)

    def is_replaced(self, module: str, block: Block) -> bool:
        """Whether nearer definitions take the places of all that a statement binds or fills."""
        if not block.defines:
            return self.acts_on_replaced(module, block)
        symbols = [Symbol(module, name) for name in block.defines]
        there = [symbol for symbol in symbols if self.resolve(symbol, module).key == symbol]
        return not there

    def _private(self, symbol: Symbol, name: str) -> str:
        """`_LlamaMLPParent`, `_rotate_half_parent`, numbered where that is something else."""
        # The name must be free in every text that the flat file can carry.
        modules = sorted({*self.plan.modules, *self.plan.parents, symbol.module})
        text = ""
        for module in modules:
            text += find_index(module, self.plan.layers, self.bindings).source.text
        ending = "Parent"
        if name.isupper():
            ending = "_PARENT"
        elif name.islower():
            ending = "_parent"
        wanted = f"_{name.lstrip('_')}{ending}"
        # Each layer can have a parent of this name: the number tells them apart.  Steps of as many
        # as there are layers never meet the number of another layer.
        layers = len(self.plan.layers)
        number = layers - self.plan.layer(symbol.module) + 1
        free = wanted if number == 1 else f"{wanted}{number}"
        while free in text:
            number += layers
            free = f"{wanted}{number}"
        return free

    @per_object
    def renamed_classes(self, module: ModuleIndex) -> dict[str, str]:
        """The class names that code of `module` may mention in strings, with what they become."""
        home = module.source.module
        package = home.rpartition(".")[0]
        prefixes = self.plan.prefixes
        symbols: list[Symbol] = []
        for parent in prefixes:
            # A configuration's docstring shows the model that it configures.
            if parent.rpartition(".")[0] == package:
                classes = self.bindings.env.index(parent, _NOWHERE).classes
                symbols += [Symbol(parent, name) for name in classes]
        symbols += [self.bindings.imported_symbol(module, item) for item in module.imports]
        renames = {}
        for symbol in symbols:
            # Only classes of a source get other names.
            if symbol.name and symbol.module in prefixes:
                renames[symbol.name] = self.resolve(symbol, home).name
        return {old: new for old, new in renames.items() if old != new}

    @per_object
    def replaced_imports(self, module: ModuleIndex) -> dict[str, Symbol]:
        """What a modular file defines in place of what a parent imports.

        parent:   from ...masking_utils import create_causal_mask
        modular:  def create_causal_mask(config, **kwargs): ...
        """
        # Nothing takes the place of what a modular file or a mixin imports.
        if module.source.module not in self.plan.parents:
            return {}
        places = {item.bound: self._declared(item.bound) for item in module.imports}
        return {name: place.key for name, place in places.items() if place and place.key}

    def _find(self, symbol: Symbol, from_layer: bool, from_its_own: bool) -> Resolution:
        """As `resolve`, where no parent is put aside."""
        module = symbol.module
        name = symbol.name
        imported = Resolution(None, self._spell_import(symbol) if symbol in self.apart else name)
        # A module itself is always imported.
        if not name:
            return imported
        if module in self.plan.modules:
            return self._declared(name) or Resolution(symbol, name)
        for kind, followed in self.plan.bases.items():
            if module == followed:
                return self._declared(name) or Resolution(symbol, name, kind)
        if symbol in self.apart and (from_its_own or module in self.plan.prefixes):
            return Resolution(symbol, self._spell_apart(symbol), kind_of_module(module))
        # A source: its classes get the new prefix.
        if module in self.plan.prefixes:
            return self._renamed(symbol)
        # A copy of the tables of transformers' auto classes would know other classes.
        is_auto = module.startswith(f"{MODELS}.auto.")
        if is_auto or not self.bindings.flatten_scope.flattens(module):
            return imported
        # A class of another model that is only used stays in its file, and so does what parents
        # import.  A function that a modular file uses is carried, with what it uses there.
        is_of_other_model = module.startswith(f"{MODELS}.") and not from_its_own
        if is_of_other_model and (not from_layer or self._is_class(symbol)):
            return imported
        return Resolution(symbol, self._spell_apart(symbol) if symbol in self.apart else name)

    def _spell_import(self, symbol: Symbol) -> str:
        """`transformers_logging` of `transformers.utils`, `logging_module` of Python itself."""
        package = symbol.module.partition(".")[0]
        name = symbol.name or symbol.module.rpartition(".")[2]
        return f"{name}_module" if name == package else f"{package}_{name}"

    def _spell_apart(self, symbol: Symbol) -> str:
        """`MistralAttention`, `mistral_rotate_half`."""
        if self._is_class(symbol):
            return symbol.name
        model = symbol.module.rpartition(".")[2].removeprefix("modeling_")
        bare = symbol.name.lstrip("_")
        model = model.upper() if bare.isupper() else model
        return symbol.name.removesuffix(bare) + f"{model}_{bare}"

    def _declared(self, name: str) -> Resolution | None:
        """The definition of `name` in the nearest layer that has one: it replaces a parent's."""
        for layer in self.plan.layers:
            # Each output has an `__all__` of its own.
            if name != "__all__" and layer.definition(name) is not None:
                symbol = Symbol(layer.source.module, name)
                declaration = self.plan.declaration(symbol)
                # Functions and constants have no kind of their own.
                return Resolution(symbol, name, declaration.kind if declaration else None)
        return None

    def _renamed(self, symbol: Symbol) -> Resolution:
        """What a definition of a source is called under the prefix of its module."""
        # Functions and constants keep their names.
        if not self._is_class(symbol):
            return self._declared(symbol.name) or Resolution(symbol, symbol.name)
        prefix = self.plan.prefixes[symbol.module]
        name = prefix.apply(symbol.name) if prefix else symbol.name
        place = self._declared(name)
        if place is not None and place.key is not None:
            declaration = self.plan.declaration(place.key)
            is_over_it = declaration is not None and symbol in declaration.parents
            # Else the name is equal by chance, which the linker refuses.
            if name != symbol.name or is_over_it:
                return place
        return Resolution(symbol, name, kind_of_module(symbol.module))

    def _is_class(self, symbol: Symbol) -> bool:
        block = self.bindings.env.index(symbol.module, _NOWHERE).definition(symbol.name)
        return block is not None and block.kind == "class"
