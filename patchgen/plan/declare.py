"""What a modular file declares: which classes, over which parents, in which output files.

In: the index of a modular file.  Out: a `ModulePlan`.  A parent module is the *base* of its kind when a class of the
modular file has the name of its parent there: then the flat file is that module with the declared classes in place.
Otherwise it is a *source*: what the new classes reach is copied from it under one new prefix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from patchgen.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.plan.bindings import Bindings
from patchgen.plan.kinds import MODELING, kind_of_class, kind_of_module
from patchgen.plan.lineage import Base, Lineages, bases_of, c3
from patchgen.plan.model import Symbol
from patchgen.plan.prefixes import Prefix, agree, derive, model_prefix
from patchgen.source.blocks import ModuleIndex


@dataclass(frozen=True, slots=True)
class Declaration:
    """One class of a modular file: `chain` is merged into it (itself first), `rest` are the bases that stay."""

    symbol: Symbol
    at: Location
    bases: tuple[Base, ...]
    chain: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    kind: str


@dataclass(frozen=True)
class ModulePlan:
    """All decisions about one modular file.

    `layers` are the modular files that speak, nearest first: the file itself, then those whose variants it extends.
    `bases` maps a kind to the module that its output follows; `prefixes` maps the other parent modules to their rename.
    """

    modular: ModuleIndex
    layers: tuple[ModuleIndex, ...]
    declarations: tuple[Declaration, ...]
    bases: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, Prefix | None] = field(default_factory=dict)

    @property
    def parents(self) -> tuple[str, ...]:
        """The modules that flat classes derive from, in order of first mention."""
        return (*self.bases.values(), *(m for m in self.prefixes if m not in self.bases.values()))

    def declaration(self, symbol: Symbol) -> Declaration | None:
        """The declaration of the class `symbol`, if a layer declares it."""
        return next((d for d in self.declarations if d.symbol == symbol), None)


def make_plan(modular: ModuleIndex, bindings: Bindings) -> ModulePlan:
    """The plan of a modular file.

    Raises Refusals with every problem of its class statements.
    """
    layers = _layers(modular, bindings)
    lineages = Lineages(bindings)
    declared: list[Declaration] = []
    problems: list[Problem] = []
    for layer in layers:
        problems += [*_conditional_classes(layer, bindings), *_imports_in_company(layer), *_declared_twice(layer)]
        for name in layer.classes:
            try:
                declared.append(_declare(layer, name, bindings, lineages, tuple(m.source.module for m in layers)))
            except PatchgenError as error:
                problems += problems_of(error)
    if problems:
        raise Refusals(problems)
    bases = _bases(declared, bindings, layers)
    return ModulePlan(modular, layers, tuple(declared), bases, _prefixes(declared, bases, bindings, layers))


def _conditional_classes(layer: ModuleIndex, bindings: Bindings) -> Iterator[Problem]:
    """Classes of a modular file that derive from a parent, but under `if` or `try`."""
    for block in layer.blocks:
        if block.kind != "guard":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if not isinstance(node, ast.ClassDef):
                continue
            for base in node.bases:
                at = layer.source.at(block.first + base.lineno - 1, base.col_offset)
                symbol = bindings.dotted(layer, ast.unparse(base), at)
                if symbol is not None and bindings.territory.flattens(symbol.module):
                    what = f"class {node.name} derives from {symbol} under a condition"
                    yield Problem(at, "PG111", what, "declare it at the top level of the file")


def _imports_in_company(layer: ModuleIndex) -> Iterator[Problem]:
    """Lines that import and do something else as well: the import goes, the rest would have to stay."""
    for block in layer.blocks:
        if block.kind == "other" and block.imports:
            at = layer.source.at(block.first)
            yield Problem(at, "PG122", "an import shares its line with another statement", "write it on its own line")


def _declared_twice(layer: ModuleIndex) -> Iterator[Problem]:
    """Two classes or functions of one name: the first would be lost without a word."""
    first: dict[str, int] = {}
    for block in layer.blocks:
        if block.kind in ("class", "def") and first.setdefault(block.name, block.first) != block.first:
            what = f"{block.name} is declared here and on line {first[block.name]}"
            yield Problem(layer.source.at(block.first), "PG123", what, "keep one of them")


def _layers(modular: ModuleIndex, bindings: Bindings) -> tuple[ModuleIndex, ...]:
    """`modular` and the modular files whose classes it extends, nearest first."""
    found: dict[str, ModuleIndex] = {modular.source.module: modular}
    queue = [modular]
    while queue:
        layer = queue.pop(0)
        for name in layer.classes:
            for base in bases_of(bindings, layer, name):
                module = base.symbol.module
                if module.rpartition(".")[2].startswith("modular_") and module not in found:
                    found[module] = bindings.env.index(module, base.at)
                    queue.append(found[module])
    return tuple(found.values())


def _declare(
    layer: ModuleIndex, name: str, bindings: Bindings, lineages: Lineages, layers: tuple[str, ...]
) -> Declaration:
    symbol = Symbol(layer.source.module, name)
    block = layer.definition(name)
    assert block is not None
    at = layer.source.at(block.first)
    bases = bases_of(bindings, layer, name)
    for base in bases:
        if bindings.territory.flattens(base.symbol.module):
            _require_class(bindings, base)
    chain, rest = _split(symbol, bases, lineages, bindings, layers, at)
    return Declaration(symbol, at, bases, chain, rest, _kind(symbol, chain))


def _require_class(bindings: Bindings, base: Base) -> None:
    if not base.symbol.name:
        hint = f"write {base.expression}.<class>"
        raise PatchgenError("PG109", base.at, f"the base {base.expression} is a module, not a class", hint)
    block = bindings.require(base.symbol, base.at)
    if block.kind == "class":
        return
    if block.kind == "guard":
        hint = (
            "a class under if or try at module level cannot be flattened: which one it is, is known at run time only"
        )
        raise PatchgenError("PG111", base.at, f"{base.symbol} is defined under a condition", hint)
    raise PatchgenError("PG109", base.at, f"{base.symbol} is not a class statement", "derive from the class itself")


def _split(
    symbol: Symbol,
    bases: tuple[Base, ...],
    lineages: Lineages,
    bindings: Bindings,
    layers: tuple[str, ...],
    at: Location,
) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
    """The shortest beginning of the MRO that holds every flattened base from another file, and the bases that stay.

    Merging is exact for a beginning of the MRO only: whatever stays is searched after all that was merged.
    """
    mro = lineages.mro(symbol, at)
    chain = mro[: _merged_length(mro, lineages, bindings, layers, at)]
    if len(chain) == 1:
        return chain, tuple(base.symbol for base in bases)
    for kept in chain:
        if not bindings.territory.flattens(kept.module):
            what = f"{kept} stays a base but stands before {chain[-1]} in the method resolution order"
            raise PatchgenError("PG108", at, what, f"write {kept.name} after {chain[-1].name} among the bases")
    direct = {base.symbol for member in chain for base in lineages.direct_bases(member, at) or ()} - set(chain)
    rest = tuple(s for s in mro[len(chain) :] if s in direct)
    lines = {s: lineages.mro(s, at) for s in rest}
    rest = tuple(s for s in rest if not any(s in lines[other][1:] for other in rest))
    if c3([*(lines[s] for s in rest), rest]) != mro[len(chain) :]:
        what = f"no order of the remaining bases gives {symbol.name} the method resolution order that it has in Python"
        raise PatchgenError("PG108", at, what, "simplify the bases")
    return chain, rest


def _merged_length(
    mro: tuple[Symbol, ...], lineages: Lineages, bindings: Bindings, layers: tuple[str, ...], at: Location
) -> int:
    """How many classes of `mro` are merged: up to the last base from another file of any merged modular class."""
    length, looked_at = 1, 0
    while looked_at < length:
        member = mro[looked_at]
        looked_at += 1
        if member.module not in layers:
            continue
        for base in lineages.direct_bases(member, at) or ():
            if base.symbol.module != member.module and bindings.territory.flattens(base.symbol.module):
                length = max(length, mro.index(base.symbol) + 1)
    return length


def _kind(symbol: Symbol, chain: tuple[Symbol, ...]) -> str:
    for ancestor in chain[1:]:
        kind = kind_of_module(ancestor.module)
        if kind is not None:
            return kind
    return MODELING if len(chain) > 1 else kind_of_class(symbol.name)


def _bases(declared: list[Declaration], bindings: Bindings, layers: tuple[ModuleIndex, ...]) -> dict[str, str]:
    """The module that each kind's output follows, from the classes that keep their parent's name."""
    own = {layer.source.module for layer in layers}
    bases: dict[str, tuple[str, Declaration]] = {}
    for declaration in declared:
        for ancestor in declaration.chain[1:]:
            if ancestor.name != declaration.symbol.name or ancestor.module in own:
                continue
            module, first = bases.setdefault(declaration.kind, (ancestor.module, declaration))
            if module != ancestor.module:
                what = (
                    f"class {declaration.symbol.name} makes a variant of {ancestor.module}, "
                    f"class {first.symbol.name} (line {first.at.line}) one of {module}"
                )
                raise PatchgenError("PG112", declaration.at, what, "write a modular file for each")
            break
    return {kind: module for kind, (module, _) in bases.items()}


def _prefixes(
    declared: list[Declaration], bases: Mapping[str, str], bindings: Bindings, layers: tuple[ModuleIndex, ...]
) -> dict[str, Prefix | None]:
    """The rename of each parent module that no output follows."""
    pairs: dict[str, list[tuple[Prefix, Location]]] = {}
    own = {layer.source.module for layer in layers}
    for declaration in declared:
        if any(ancestor.name == declaration.symbol.name for ancestor in declaration.chain[1:]):
            continue  # its other bases are mixins, not models to be renamed
        for base in declaration.bases:
            module = base.symbol.module
            if module in bases.values() or module in own or not _is_model_file(module, bindings):
                continue
            found = pairs.setdefault(module, [])
            folder = module.rpartition(".")[0].rpartition(".")[2]
            model = model_prefix(folder, bindings.env.index(module, base.at).classes)
            prefix = derive(declaration.symbol.name, base.symbol.name, model)
            if prefix is not None:
                found.append((prefix, declaration.at))
    return {module: agree(found, module) for module, found in pairs.items()}


def _is_model_file(module: str, bindings: Bindings) -> bool:
    return bindings.territory.flattens(module) and not module.startswith("patchgen.parts")
