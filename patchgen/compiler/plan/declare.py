"""Read what a modular file declares: which classes, over which parents, in which output files.

In: the index of a modular file, and the classes that are known to stay subclasses.  Out: a
`ModulePlan`.

A parent module is the *base* of its kind when a class of the modular file has the name of its
parent there, or, in a file without classes, a function or constant (`classless`): then the flat
file is that module with the declarations in place.  Otherwise it is a *source*: what the new
classes use is copied from it under one new prefix.

    class LlamaMLP(llama.LlamaMLP)      modeling_llama is the base: all of it stays
    class TinyMLP(llama.LlamaMLP)       modeling_llama is a source: Llama becomes Tiny
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from patchgen.compiler.language import check_classes, check_file
from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.chains import check_class_statement, split
from patchgen.compiler.plan.classless import find_followed
from patchgen.compiler.plan.identity import find_reason
from patchgen.compiler.plan.intent import makes_rewrites
from patchgen.compiler.plan.kinds import MODELING, kind_of_class, kind_of_module
from patchgen.compiler.plan.lineage import Base, Lineages, bases_of
from patchgen.compiler.plan.mentions import find_mentions
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import Prefix, agree, derive, model_prefix
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Import, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of


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

    def layer(self, module: str) -> int:
        """How far `module` is from the modular file: 0 for itself.

        What is no modular file comes after all of them.
        """
        names = [layer.source.module for layer in self.layers]
        return names.index(module) if module in names else len(names)


_NOTHING: Mapping[Symbol, str] = MappingProxyType({})


def make_plan(
    modular: ModuleIndex,
    bindings: Bindings,
    kept: Mapping[Symbol, str] = _NOTHING,
    decorators: Collection[str] = (),
) -> ModulePlan:
    """Plan a modular file; `kept` are classes that are known to stay subclasses, with the reason.

    `decorators` are those of classes that the project's configuration knows.  Raises Refusals with
    every problem of its class statements, and PG100 for what is not in the language.
    """
    # A modular file can extend the variant of another one.
    layers = _find_layers(modular, bindings)
    known = _Known(bindings, Lineages(bindings), layers, kept, frozenset(decorators))
    declared = _declare_all(known)
    # Only now are the parents of all classes known.
    parents = {declaration.symbol: declaration.parents for declaration in declared}
    mentioned = find_mentions(layers, parents, bindings)
    for place, declaration in enumerate(declared):
        if declaration.symbol in mentioned:
            declared[place] = _keep_subclass(declaration, mentioned[declaration.symbol])
    if declared:
        bases = _find_bases(declared, layers)
    else:
        bases = find_followed(modular, bindings)
    prefixes = _find_prefixes(declared, bases, bindings, layers)
    return ModulePlan(modular, layers, tuple(declared), bases, prefixes)


def check_language(index: ModuleIndex, bindings: Bindings) -> None:
    """Raise PG100 for what a file that is flattened has that is not in the language.

    transformers' own files are on the page as they are.
    """
    module, scope = index.source.module, bindings.flatten_scope
    if module.startswith(f"{MODELS}.") or not scope.flattens(module):
        return

    def is_carried(item: Import) -> bool:
        symbol = Symbol(item.module, "")
        if item.name or item.level:
            at = index.source.at(item.line, item.column)
            symbol = bindings.canonical(bindings.imported_symbol(index, item), at)
        return scope.flattens(symbol.module) and bindings.env.path(symbol.module) is not None

    problems = check_file(index, is_carried)
    if problems:
        raise Refusals(problems)


def _find_layers(modular: ModuleIndex, bindings: Bindings) -> tuple[ModuleIndex, ...]:
    """`modular` and the modular files whose classes it extends, nearest first."""
    found: dict[str, ModuleIndex] = {modular.source.module: modular}
    queue = [modular]
    # Breadth first: the nearest layers come first.
    while queue:
        layer = queue.pop(0)
        check_language(layer, bindings)
        for base in _list_bases(layer, bindings):
            module = base.symbol.module
            is_modular = module.rpartition(".")[2].startswith("modular_")
            if is_modular and module not in found:
                found[module] = bindings.env.index(module, base.at)
                queue.append(found[module])
    return tuple(found.values())


def _list_bases(layer: ModuleIndex, bindings: Bindings) -> Iterator[Base]:
    """The bases of all classes of a modular file."""
    for name in layer.classes:
        yield from bases_of(bindings, layer, name)


@dataclass(frozen=True)
class _Known:
    """What every declaration of a plan is made with."""

    bindings: Bindings
    lineages: Lineages
    layers: tuple[ModuleIndex, ...]
    kept: Mapping[Symbol, str]
    decorators: frozenset[str]

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(layer.source.module for layer in self.layers)

    def index(self, module: str) -> ModuleIndex:
        """The blocks of `module`, a modular file or a module below the roots."""
        # The environment would read the file again, under the name that imports give it.
        for layer in self.layers:
            if layer.source.module == module:
                return layer
        return self.bindings.env.index(module, Location(module))


def _declare_all(known: _Known) -> list[Declaration]:
    """The classes of all layers, nearest layer first."""
    declared: list[Declaration] = []
    problems: list[Problem] = []
    for layer in known.layers:
        for name in layer.classes:
            try:
                declared.append(_declare(layer, name, known))
            # Go on, so that one run reports every class that fails.
            except PatchgenError as error:
                problems += problems_of(error)
    if problems:
        raise Refusals(problems)
    return declared


def _declare(layer: ModuleIndex, name: str, known: _Known) -> Declaration:
    """One declaration: merged as far as that can be, else with the reason in `why`."""
    bindings, lineages = known.bindings, known.lineages
    symbol = Symbol(layer.source.module, name)
    block = layer.definition(name)
    assert block is not None
    at = layer.source.at(block.first)
    bases = bases_of(bindings, layer, name)
    # Asked in any case: a base that does not exist is an error whatever becomes of the class.
    unknown = _find_unknown_bases(bases, bindings)
    found = split(symbol, bases, lineages, bindings, known.modules, at)
    flattened = [s for s in found.chain if bindings.flatten_scope.flattens(s.module)]
    classes = tuple((known.index(ancestor.module), ancestor) for ancestor in flattened)
    merged = Declaration(
        symbol=symbol,
        at=at,
        bases=bases,
        chain=found.chain,
        rest=found.rest,
        kind=_kind(symbol, found.chain),
        parents=found.chain[1:],
        rewrites=makes_rewrites(classes, bindings),
    )
    if not merged.is_merged:
        return merged
    for index in dict.fromkeys(index for index, _ in classes):
        check_language(index, bindings)
    outside = [str(base) for base in lineages.mro(symbol, at) if base not in found.chain]
    merging = [(index, ancestor.name) for index, ancestor in classes]
    off_the_page = list(check_classes(merging, outside, known.decorators))
    if off_the_page:
        raise Refusals(off_the_page)
    if unknown:
        # A class that only a merged class can replace has no way out.
        replaces_base = any(base.symbol.name == name for base, _ in unknown)
        if merged.rewrites or replaces_base:
            raise Refusals(problem for _, problem in unknown)
        return _keep_subclass(merged, unknown[0][1].what)
    why = known.kept.get(symbol) or found.obstacle or find_reason(classes, lineages, at)
    return _keep_subclass(merged, why) if why else merged


def _find_unknown_bases(bases: tuple[Base, ...], bindings: Bindings) -> list[tuple[Base, Problem]]:
    """The bases that would be merged, but are no class statements."""
    found: list[tuple[Base, Problem]] = []
    for base in bases:
        if not bindings.flatten_scope.flattens(base.symbol.module):
            continue
        problem = check_class_statement(bindings, base)
        if problem:
            found.append((base, problem))
    return found


def _keep_subclass(declaration: Declaration, why: str) -> Declaration:
    """The same class as a subclass of its bases.

    Raises PatchgenError PG126 where that cannot be.
    """
    if declaration.rewrites:
        name = declaration.symbol.name
        what = f"{name} edits or removes what it inherits, and has to stay a subclass: {why}"
        hint = (
            "only what is merged can be edited or removed: "
            "override the whole method or attribute instead"
        )
        raise PatchgenError("PG126", declaration.at, what, hint)
    bases = tuple(base.symbol for base in declaration.bases)
    return replace(declaration, chain=declaration.chain[:1], rest=bases, why=why)


def _kind(symbol: Symbol, chain: tuple[Symbol, ...]) -> str:
    """The kind of output that a class stands in."""
    # A class belongs into the file that its parents are in: `LlamaConfig` into a configuration.
    for ancestor in chain[1:]:
        kind = kind_of_module(ancestor.module)
        if kind is not None:
            return kind
    has_parents = len(chain) > 1
    return MODELING if has_parents else kind_of_class(symbol.name)


def _find_bases(declared: list[Declaration], layers: tuple[ModuleIndex, ...]) -> dict[str, str]:
    """The module that each kind's output follows: that of parents whose names classes keep."""
    own = {layer.source.module for layer in layers}
    bases: dict[str, tuple[str, Declaration]] = {}
    for declaration in declared:
        followed = _find_namesake(declaration, own)
        if followed is None:
            continue
        # Two models in one file would need two outputs of one kind.
        module, first = bases.setdefault(declaration.kind, (followed, declaration))
        if module != followed:
            what = (
                f"class {declaration.symbol.name} makes a variant of {followed}, "
                f"class {first.symbol.name} (line {first.at.line}) one of {module}"
            )
            raise PatchgenError("PG112", declaration.at, what, "write a modular file for each")
    return {kind: module for kind, (module, _) in bases.items()}


def _find_namesake(declaration: Declaration, own: set[str]) -> str | None:
    """The module of the nearest parent that has the name of the class."""
    for ancestor in declaration.parents:
        if ancestor.name == declaration.symbol.name and ancestor.module not in own:
            return ancestor.module
    return None


def _find_prefixes(
    declared: list[Declaration],
    bases: Mapping[str, str],
    bindings: Bindings,
    layers: tuple[ModuleIndex, ...],
) -> dict[str, Prefix | None]:
    """The rename of each parent module that no output follows."""
    pairs: dict[str, list[tuple[Prefix, Location]]] = {}
    own = {layer.source.module for layer in layers}
    settled = own | set(bases.values())
    for declaration in declared:
        name = declaration.symbol.name
        if any(ancestor.name == name for ancestor in declaration.parents):
            continue  # its other bases are mixins, not models to be renamed
        for base in declaration.bases:
            module = base.symbol.module
            if module in settled or not _is_model_file(module, bindings):
                continue
            # Also without a pair: the classes of this module keep their names then.
            found = pairs.setdefault(module, [])
            prefix = _derive_prefix(name, base, bindings)
            # Classes without a common ending say nothing about the prefix.
            if prefix is not None:
                found.append((prefix, declaration.at))
    return {module: agree(found, module) for module, found in pairs.items()}


def _derive_prefix(name: str, base: Base, bindings: Bindings) -> Prefix | None:
    """The prefix that `class name(base)` shows."""
    module = base.symbol.module
    # The folder of `transformers.models.gpt2.modeling_gpt2` names the model.
    folder = module.rpartition(".")[0].rpartition(".")[2]
    classes = bindings.env.index(module, base.at).classes
    return derive(name, base.symbol.name, model_prefix(folder, classes))


def _is_model_file(module: str, bindings: Bindings) -> bool:
    """Whether a module is flattened and is no part, whose classes keep their names."""
    return bindings.flatten_scope.flattens(module) and not module.startswith("patchgen.parts")
