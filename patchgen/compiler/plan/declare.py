"""Read what a modular file declares: which classes, over which parents, in which output files.

In: the index of a modular file.  Out: a `ModulePlan`.

A parent module is the *base* of its kind when a class of the modular file has the name of its
parent there, or, in a file without classes, a function or constant (`classless`): then the flat
file is that module with the declarations in place.  Otherwise it is a *source*: what the new
classes use is copied from it under one new prefix.

    class LlamaMLP(llama.LlamaMLP)      modeling_llama is the base: all of it stays
    class TinyMLP(llama.LlamaMLP)       modeling_llama is a source: Llama becomes Tiny
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from patchgen.compiler.language import check_classes, check_shared
from patchgen.compiler.plan.bindings import Bindings, is_part
from patchgen.compiler.plan.gate import check_language
from patchgen.compiler.plan.lineage import Base, Lineages, bases_of, check_class_statement, split
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import (
    MODELING,
    Prefix,
    agree,
    derive,
    kind_of_class,
    kind_of_module,
    model_prefix,
)
from patchgen.compiler.plan.words import is_edit, removed_name
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import (
    Location,
    PatchgenError,
    Problem,
    Refusals,
    did_you_mean,
    problems_of,
)
from patchgen.syntax.trees import parse_class


@dataclass(frozen=True, slots=True)
class Declaration:
    """One class of a modular file.

    `chain` is merged into it, itself first; `rest` are the bases that stay.  `parents` are the
    classes that are merged into it, or would be if it did not stay a subclass of them for the
    reason `why`.  `rewrites`: one of them makes edits or removes members, which only a merged class
    can do.
    """

    symbol: Symbol
    at: Location
    bases: tuple[Base, ...]
    chain: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    kind: str
    parents: tuple[Symbol, ...] = ()
    why: str = ""
    rewrites: bool = False

    @property
    def is_merged(self) -> bool:
        """Whether other classes are merged into it."""
        return len(self.chain) > 1


@dataclass(frozen=True)
class ModulePlan:
    """All decisions about one modular file.

    `layers` are the modular files that count, nearest first: the file itself, then those whose
    variants it extends.  `bases` maps a kind to the module that its output follows; `prefixes` maps
    the other parent modules to their rename.
    """

    modular: ModuleIndex
    layers: tuple[ModuleIndex, ...]
    declarations: tuple[Declaration, ...]
    bases: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, Prefix | None] = field(default_factory=dict)

    @property
    def parents(self) -> tuple[str, ...]:
        """The modules that flat classes derive from, in order of first mention."""
        return tuple(dict.fromkeys([*self.bases.values(), *self.prefixes]))

    def declaration(self, symbol: Symbol) -> Declaration | None:
        """The declaration of the class `symbol`, if a layer declares it."""
        for declaration in self.declarations:
            if declaration.symbol == symbol:
                return declaration
        return None

    def subclass_of(self, symbol: Symbol) -> Declaration | None:
        """The nearest declaration that stays a subclass of the class `symbol`."""
        for declaration in self.declarations:
            if declaration.why and symbol in declaration.rest:
                return declaration
        return None

    def heirs_of(self, symbol: Symbol) -> list[Symbol]:
        """The declared classes that derive from the class `symbol`, merged or not."""
        return [each.symbol for each in self.declarations if symbol in each.parents]

    def keep_subclasses(self, kept: Mapping[Symbol, str]) -> ModulePlan:
        """The plan in which the classes `kept` stay subclasses of their bases, with the reasons."""
        declarations = []
        for each in self.declarations:
            if each.symbol in kept:
                bases = tuple(base.symbol for base in each.bases)
                each = replace(each, chain=each.chain[:1], rest=bases, why=kept[each.symbol])
            declarations.append(each)
        return replace(self, declarations=tuple(declarations))

    def layer(self, module: str) -> int:
        """How far `module` is from the modular file, which is 0; others come behind all layers."""
        return self.modules.get(module, len(self.layers))

    @functools.cached_property
    def modules(self) -> dict[str, int]:
        """The names of the layers, each with how far it is."""
        return {layer.source.module: place for place, layer in enumerate(self.layers)}


def find_index(module: str, layers: Sequence[ModuleIndex], bindings: Bindings) -> ModuleIndex:
    """The blocks of `module`, a modular file or a module below the roots."""
    # The environment would read the file again, under the name that imports give it.
    own = next((layer for layer in layers if layer.source.module == module), None)
    return own or bindings.env.index(module, Location(module))


def make_plan(
    modular: ModuleIndex,
    bindings: Bindings,
    decorators: Collection[str] = (),
) -> ModulePlan:
    """Plan a modular file.

    `decorators` are those of classes that the project's configuration knows.  Raises Refusals with
    every problem of its class statements, and PG100 for what is not in the language.
    """
    # A modular file can extend the variant of another one.
    layers = _find_layers(modular, bindings)
    context = _Context(bindings, Lineages(bindings), layers, frozenset(decorators))
    declared = _declare_all(context)
    if not declared:
        bases = find_followed(modular, bindings)
    else:
        bases = _find_bases(declared, context)
        # Beside a configuration, functions and constants may be all that changes of the model.
        kinds = {declaration.kind for declaration in declared}
        if kinds == {*bases} == {"configuration"}:
            bases = {**find_followed(modular, bindings, MODELING), **bases}
    prefixes = _find_prefixes(declared, bases, context)
    return ModulePlan(modular, layers, tuple(declared), bases, prefixes)


def _find_layers(modular: ModuleIndex, bindings: Bindings) -> tuple[ModuleIndex, ...]:
    """`modular` and the modular files whose classes it extends, nearest first."""
    layers: dict[str, ModuleIndex] = {modular.source.module: modular}
    queue = [modular]
    # Breadth first: the nearest layers come first.
    while queue:
        layer = queue.pop(0)
        check_language(layer, bindings)
        for name in layer.classes:
            for base in bases_of(bindings, layer, name):
                module = base.symbol.module
                is_modular = module.rpartition(".")[2].startswith("modular_")
                if is_modular and module not in layers:
                    layers[module] = bindings.env.index(module, base.at)
                    queue.append(layers[module])
    return tuple(layers.values())


@dataclass(frozen=True)
class _Context:
    """What every declaration of a plan is made with."""

    bindings: Bindings
    lineages: Lineages
    layers: tuple[ModuleIndex, ...]
    decorators: frozenset[str]

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(layer.source.module for layer in self.layers)

    def index(self, module: str) -> ModuleIndex:
        return find_index(module, self.layers, self.bindings)

    def is_model_file(self, module: str) -> bool:
        """Whether a module is flattened and is no part, whose classes keep their names."""
        return self.bindings.flatten_scope.flattens(module) and not is_part(module)


def _declare_all(context: _Context) -> list[Declaration]:
    """The classes of all layers, nearest layer first."""
    declared: list[Declaration] = []
    problems: list[Problem] = []
    for layer in context.layers:
        for name in layer.classes:
            try:
                declared.append(_declare(layer, name, context))
            # Go on, so that one run reports every class that fails.
            except PatchgenError as error:
                problems += problems_of(error)
    heirs: dict[Symbol, list[tuple[ModuleIndex, str]]] = {}
    for declaration in declared:
        for parent in declaration.chain[1:]:
            own = context.index(declaration.symbol.module), declaration.symbol.name
            heirs.setdefault(parent, []).append(own)
    for parent, classes in heirs.items():
        problems += check_shared(context.index(parent.module), parent.name, classes)
    if problems:
        raise Refusals(problems)
    return declared


def _declare(layer: ModuleIndex, name: str, context: _Context) -> Declaration:
    """One declaration: merged as far as that can be, else with the reason in `why`."""
    bindings = context.bindings
    lineages = context.lineages
    symbol = Symbol(layer.source.module, name)
    block = layer.definition(name)
    assert block is not None
    at = layer.source.at(block.first)
    bases = bases_of(bindings, layer, name)
    # Asked in any case: a base that does not exist is an error whatever becomes of the class.
    flattens = bindings.flatten_scope.flattens
    asked = [check_class_statement(bindings, b) for b in bases if flattens(b.symbol.module)]
    unknown = list(filter(None, asked))
    chain, rest, obstacle = split(symbol, bases, lineages, context.modules, at)
    # A class belongs into the file that its parents are in: `LlamaConfig` into a configuration.
    kind = MODELING if len(chain) > 1 else kind_of_class(name)
    for parent in reversed(chain[1:]):
        kind = kind_of_module(parent.module) or kind
    merged = Declaration(symbol, at, bases, chain, rest, kind, chain[1:])
    if not merged.is_merged:
        # A class over one of its own file may call what is merged into that one.
        if any(base.symbol.module in context.modules for base in bases):
            problems = list(check_classes([(layer, name)], (), context.decorators))
            if problems:
                raise Refusals(problems)
        return merged
    classes = [(context.index(each.module), each.name) for each in chain if flattens(each.module)]
    for index in dict.fromkeys(index for index, _ in classes):
        check_language(index, bindings)
    outside = [str(base) for base in lineages.mro(symbol, at) if base not in chain]
    off_the_page = list(check_classes(classes, outside, context.decorators))
    if off_the_page or unknown:
        raise Refusals(off_the_page or unknown)
    if obstacle:
        hint = "change the order of the bases, or override in one class what the others have"
        raise PatchgenError("PG107", at, obstacle, hint)
    return replace(merged, rewrites=_makes_rewrites(chain, context))


def _makes_rewrites(chain: tuple[Symbol, ...], context: _Context) -> bool:
    """Whether a class of `chain` edits or removes what a class behind it has."""
    behind: set[str] = set()
    for symbol in reversed(chain):
        index = context.index(symbol.module)
        block = index.definition(symbol.name)
        body = parse_class(block.text).body if block else []
        if any(is_edit(index, statement, context.bindings) for statement in body):
            return True
        # Removing what no parent binds is no removal.
        if any(removed_name(statement) in behind for statement in body):
            return True
        behind.update(bound_names(body))
    return False


def _find_bases(declared: list[Declaration], context: _Context) -> dict[str, str]:
    """The module that each kind's output follows: that of classes whose names the file binds."""
    bases: dict[str, str] = {}
    shown_by: dict[str, str] = {}
    following = [*_find_namesakes(declared, context), *_find_replaced_classes(context)]
    for name, at, kind, followed in following:
        base = bases.setdefault(kind, followed)
        shown = f"{name} (line {at.line})"
        other = shown_by.setdefault(kind, shown)
        # Two models in one file would need two outputs of one kind.
        if base != followed:
            what = f"{name} makes a variant of {followed}, {other} one of {base}"
            raise PatchgenError("PG112", at, what, "write a modular file for each")
    return bases


def _find_namesakes(
    declared: list[Declaration], context: _Context
) -> Iterator[tuple[str, Location, str, str]]:
    """The declared classes with the name of a class that they derive from, at any distance.

    Each with its place, its kind and the module of the ancestor.
    """
    for declaration in declared:
        name = declaration.symbol.name
        for ancestor in context.lineages.mro(declaration.symbol, declaration.at)[1:]:
            is_of_parent = ancestor.module not in context.modules
            if ancestor.name == name and is_of_parent and context.is_model_file(ancestor.module):
                yield name, declaration.at, declaration.kind, ancestor.module
                break


def _find_replaced_classes(context: _Context) -> Iterator[tuple[str, Location, str, str]]:
    """What the modular file binds under the name of a class of a model that it imports.

    class LlamaMLP(nn.Module): ...          LlamaMLP = Relu2MLP

    A class over another one of that model has the name by chance.
    """
    modular = context.layers[0]
    source = modular.source
    parents = list_parents(modular, context.bindings)
    for block in modular.blocks:
        at = source.at(block.first)
        imported = {item.bound for item in block.imports}
        for name in block.defines:
            symbol = Symbol(source.module, name)
            for module, index in parents.items():
                derived = context.lineages.mro(symbol, Location(""))
                is_by_chance = any(ancestor.module == module for ancestor in derived)
                if name in index.classes and name not in imported and not is_by_chance:
                    yield name, at, kind_of_module(module) or MODELING, module


def _find_prefixes(
    declared: Sequence[Declaration], bases: Mapping[str, str], context: _Context
) -> dict[str, Prefix | None]:
    pairs: dict[str, list[Prefix]] = {}
    settled = {*context.modules, *bases.values()}
    for declaration in declared:
        name = declaration.symbol.name
        if any(ancestor.name == name for ancestor in declaration.parents):
            continue  # its other bases are mixins, not models to be renamed
        for base in declaration.bases:
            module = base.symbol.module
            if module in settled or not context.is_model_file(module):
                continue
            # The file or the folder of `transformers.models.gpt2.modeling_gpt2` names the model.
            folder, _, file = module.rpartition(".")
            classes = context.bindings.env.index(module, base.at).classes
            file_stem = file.partition("_")[2]
            folder_stem = folder.rpartition(".")[2]
            model = model_prefix(file_stem, classes) or model_prefix(folder_stem, classes)
            prefix = derive(name, base.symbol.name, model)
            # Without a pair, the classes of this module keep their names.
            pairs.setdefault(module, []).extend([prefix] if prefix else [])
    return {module: agree(shown) for module, shown in pairs.items()}


_HINT = (
    "declare a class of the parent that is meant, with the parent's name: class A(parent.A): pass"
)


def find_followed(
    modular: ModuleIndex, bindings: Bindings, beside: str | None = None
) -> dict[str, str]:
    """The module that each kind follows; raises PG125 where none or several define its names.

    With `beside`, only a module of that kind is asked for, and there may be none.
    """
    # What the file defines itself; `__all__` and `__version__` are every module's own.
    own: dict[str, Block] = {}
    for block in modular.blocks:
        imported = {item.bound for item in block.imports}
        for name in block.defines:
            if name not in imported and not name.startswith("__"):
                own[name] = block
    # Its imports say who the parents can be.
    parents = list_parents(modular, bindings)
    if not own or not parents:
        return {}
    redefined = {}
    for module, index in parents.items():
        names = list(filter(index.definition, own))
        if names and beside in (None, kind_of_module(module)):
            redefined[module] = names
    if beside and not redefined:
        return {}
    if len(redefined) == 1:
        (module,) = redefined
        return {kind_of_module(module) or MODELING: module}
    if redefined:
        # One name of each module is enough.
        anew = " and ".join(f"{names[0]} of {module}" for module, names in redefined.items())
        name = next(iter(redefined.values()))[0]
        what = f"no class is declared that says whose variant this is: the file defines {anew} anew"
        raise PatchgenError("PG125", modular.source.at(own[name].first), what, _HINT)
    name = next(iter(own))
    what = f"{name} takes the place of nothing in {', '.join(parents)}"
    # The name may be a misspelt one of a parent.
    known = chain.from_iterable(index.names for index in parents.values())
    hint = did_you_mean(name, known)
    at = modular.source.at(own[name].first)
    raise PatchgenError("PG125", at, f"{what}, and the file declares no class", hint or _HINT)


def list_parents(modular: ModuleIndex, bindings: Bindings) -> dict[str, ModuleIndex]:
    """The modules of models that the file imports, or imports names from, in order."""
    guarded: set[Import] = set()
    for block in modular.blocks:
        if block.kind == "guard":
            guarded.update(block.imports)
    parents: dict[str, ModuleIndex] = {}
    for item in modular.imports:
        at = modular.source.at(item.line, item.column)
        symbol = bindings.canonical(bindings.imported_symbol(modular, item), at)
        module = symbol.module
        # A module that may be missing is imported under a condition.
        is_missing = bindings.env.path(module) is None and item in guarded
        # A modular file declares a variant of a third file; a part adds to a model.
        file = module.rpartition(".")[2]
        is_model = not file.startswith("modular_") and not is_part(module)
        if is_missing or not is_model or not bindings.flatten_scope.flattens(module):
            continue
        # A misspelt import is an error of its own.
        if symbol.name and symbol.name != "*":
            bindings.require(symbol, at)
        parents[module] = bindings.env.index(module, at)
    return parents
