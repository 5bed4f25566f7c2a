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

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from patchgen.compiler.language import check_classes, check_file, check_shared
from patchgen.compiler.plan.bindings import PARTS, Bindings
from patchgen.compiler.plan.lineage import Base, Lineages, bases_of, check_class_statement, split
from patchgen.compiler.plan.mentions import find_mentions, find_named_definitions
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
from patchgen.facts.modules import MODELS
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
from patchgen.syntax.trees import called_function, find_class, list_arguments


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
    the other parent modules to their rename.  `named` are the functions and constants of parents
    that the modular file binds anew and still names.
    """

    modular: ModuleIndex
    layers: tuple[ModuleIndex, ...]
    declarations: tuple[Declaration, ...]
    bases: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, Prefix | None] = field(default_factory=dict)
    named: frozenset[Symbol] = frozenset()

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
        bases = _find_bases(declared, known)
    else:
        bases = find_followed(modular, bindings)
    prefixes = _find_prefixes(declared, bases, bindings, layers)
    merged = {parent for declaration in declared for parent in declaration.parents}
    named = find_named_definitions(layers, {*bases.values(), *prefixes}, merged, bindings)
    return ModulePlan(modular, layers, tuple(declared), bases, prefixes, named)


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

    problems = [*check_file(index, is_carried)]
    read = {name for block in index.blocks for name in block.uses}.union(index.exports or ())
    for block in index.blocks:
        for item in block.imports if block.kind == "import" else ():
            at = index.source.at(item.line, item.column)
            owner = bindings.canonical(bindings.imported_symbol(index, item), at).module
            # An import may say which model is followed; what other modules do is not carried.
            is_helper = scope.is_own(owner) and kind_of_module(owner) is None
            if is_helper and item.bound not in read and is_carried(item):
                what = f"{item.bound} is imported, and nothing reads it"
                what += ": this is not in the language of modular files"
                problems.append(Problem(at, "PG100", what, "leave it out, or read what it defines"))
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
    heirs: dict[Symbol, list[tuple[ModuleIndex, str]]] = {}
    for declaration in declared:
        for parent in declaration.chain[1:]:
            own = known.index(declaration.symbol.module), declaration.symbol.name
            heirs.setdefault(parent, []).append(own)
    for parent, classes in heirs.items():
        problems += check_shared(known.index(parent.module), parent.name, classes)
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
        # A class over one of its own file may call what is merged into that one.
        if any(base.symbol.module in known.modules for base in bases):
            problems = list(check_classes([(layer, name)], (), known.decorators))
            if problems:
                raise Refusals(problems)
        return merged
    for index in dict.fromkeys(index for index, _ in classes):
        check_language(index, bindings)
    outside = [str(base) for base in lineages.mro(symbol, at) if base not in found.chain]
    merging = [(index, ancestor.name) for index, ancestor in classes]
    off_the_page = list(check_classes(merging, outside, known.decorators))
    if off_the_page:
        raise Refusals(off_the_page)
    if unknown:
        raise Refusals(unknown)
    if found.obstacle:
        hint = "change the order of the bases, or override in one class what the others have"
        raise PatchgenError("PG107", at, found.obstacle, hint)
    why = known.kept.get(symbol)
    return _keep_subclass(merged, why) if why else merged


def _find_unknown_bases(bases: tuple[Base, ...], bindings: Bindings) -> list[Problem]:
    """A problem for each base that would be merged, but is no class statement."""
    flattened = [base for base in bases if bindings.flatten_scope.flattens(base.symbol.module)]
    problems = [check_class_statement(bindings, base) for base in flattened]
    return [problem for problem in problems if problem is not None]


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


def _find_bases(declared: list[Declaration], known: _Known) -> dict[str, str]:
    """The module that each kind's output follows: that of classes whose names the file binds."""
    bases: dict[str, tuple[str, str, int]] = {}
    for name, at, kind, followed in (
        *_find_namesakes(declared, known),
        *_find_replaced_classes(known),
    ):
        # Two models in one file would need two outputs of one kind.
        module, first, line = bases.setdefault(kind, (followed, name, at.line))
        if module != followed:
            what = f"{name} makes a variant of {followed}, {first} (line {line}) one of {module}"
            raise PatchgenError("PG112", at, what, "write a modular file for each")
    return {kind: module for kind, (module, _, _) in bases.items()}


def _find_namesakes(
    declared: list[Declaration], known: _Known
) -> Iterator[tuple[str, Location, str, str]]:
    """The declared classes with the name of a class that they derive from, at any distance.

    Each with its place, its kind and the module of the ancestor.
    """
    for declaration in declared:
        name = declaration.symbol.name
        for ancestor in known.lineages.mro(declaration.symbol, declaration.at)[1:]:
            is_of_parent = ancestor.module not in known.modules and _is_model_file(
                ancestor.module, known.bindings
            )
            if ancestor.name == name and is_of_parent:
                yield name, declaration.at, declaration.kind, ancestor.module
                break


def _find_replaced_classes(known: _Known) -> Iterator[tuple[str, Location, str, str]]:
    """What the modular file binds under the name of a class of a model that it imports.

    class LlamaMLP(nn.Module): ...          LlamaMLP = Relu2MLP

    A class over another one of that model has the name by chance.
    """
    modular = known.layers[0]
    parents = list_parents(modular, known.bindings)
    for block in modular.blocks:
        imported = {item.bound for item in block.imports}
        for name in block.defines:
            for module, index in parents.items():
                derived = known.lineages.mro(Symbol(modular.source.module, name), Location(""))
                is_by_chance = any(ancestor.module == module for ancestor in derived)
                if name in index.classes and name not in imported and not is_by_chance:
                    kind = kind_of_module(module) or MODELING
                    yield name, modular.source.at(block.first), kind, module


def _find_prefixes(
    declared: list[Declaration],
    bases: Mapping[str, str],
    bindings: Bindings,
    layers: tuple[ModuleIndex, ...],
) -> dict[str, Prefix | None]:
    """The rename of each parent module that no output follows."""
    pairs: dict[str, list[Prefix]] = {}
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
                found.append(prefix)
    return {module: agree(found) for module, found in pairs.items()}


def _derive_prefix(name: str, base: Base, bindings: Bindings) -> Prefix | None:
    """The prefix that `class name(base)` shows."""
    module = base.symbol.module
    # The file or the folder of `transformers.models.gpt2.modeling_gpt2` names the model.
    folder, _, file = module.rpartition(".")
    classes = bindings.env.index(module, base.at).classes
    stem = file.partition("_")[2]
    model = model_prefix(stem, classes) or model_prefix(folder.rpartition(".")[2], classes)
    return derive(name, base.symbol.name, model)


def _is_model_file(module: str, bindings: Bindings) -> bool:
    """Whether a module is flattened and is no part, whose classes keep their names."""
    return bindings.flatten_scope.flattens(module) and not module.startswith("patchgen.parts")


_HINT = (
    "declare a class of the parent that is meant, with the parent's name: class A(parent.A): pass"
)


def find_followed(modular: ModuleIndex, bindings: Bindings) -> dict[str, str]:
    """The module that the output of each kind follows, at most one.

    Raises PatchgenError PG125 where no imported module, or more than one, defines what the file
    defines.
    """
    # What the file defines itself; its imports say who the parents can be.
    own: dict[str, Block] = {}
    for block in modular.blocks:
        own.update(dict.fromkeys(_own_names(block), block))
    parents = list_parents(modular, bindings)
    if not own or not parents:
        return {}
    redefined: dict[str, list[str]] = {}
    for module, index in parents.items():
        names = [name for name in own if index.definition(name)]
        if names:
            redefined[module] = names
    if not redefined:
        raise _refuse_unrelated(modular, own, parents)
    module, names = next(iter(redefined.items()))
    if len(redefined) > 1:
        what = (
            "no class is declared that says whose variant this is: "
            f"the file defines {_list_redefined(redefined)} anew"
        )
        raise PatchgenError("PG125", modular.source.at(own[names[0]].first), what, _HINT)
    # One parent defines what the file defines: the output follows it.
    return {kind_of_module(module) or MODELING: module}


def _list_redefined(redefined: Mapping[str, list[str]]) -> str:
    """`rotate_half of MODULE and rms_norm of MODULE`: one name of each module is enough."""
    return " and ".join(f"{names[0]} of {module}" for module, names in redefined.items())


def _refuse_unrelated(
    modular: ModuleIndex, own: Mapping[str, Block], parents: Mapping[str, ModuleIndex]
) -> PatchgenError:
    """The error for a file that replaces nothing, with the name most like its own."""
    name = next(iter(own))
    modules = ", ".join(parents)
    what = f"{name} takes the place of nothing in {modules}, and the file declares no class"
    # The name may be a misspelt one of a parent.
    known: list[str] = []
    for index in parents.values():
        known += index.names
    hint = did_you_mean(name, known) or _HINT
    return PatchgenError("PG125", modular.source.at(own[name].first), what, hint)


def _own_names(block: Block) -> list[str]:
    """The functions and constants that a block defines."""
    imported = {item.bound for item in block.imports}
    # `__all__` and `__version__` are every module's own.
    return [name for name in block.defines if name not in imported and not name.startswith("__")]


def list_parents(modular: ModuleIndex, bindings: Bindings) -> dict[str, ModuleIndex]:
    """The modules of models that the file imports, or imports names from, in order."""
    guarded = {item for block in modular.blocks if block.kind == "guard" for item in block.imports}
    found: dict[str, ModuleIndex] = {}
    for item in modular.imports:
        at = modular.source.at(item.line, item.column)
        symbol = bindings.canonical(bindings.imported_symbol(modular, item), at)
        # A module that may be missing is imported under a condition.
        is_missing = bindings.env.path(symbol.module) is None and item in guarded
        if is_missing or not _may_be_followed(symbol.module, bindings):
            continue
        # A misspelt import is an error of its own.
        if symbol.name and symbol.name != "*":
            bindings.require(symbol, at)
        found[symbol.module] = bindings.env.index(symbol.module, at)
    return found


def _may_be_followed(module: str, bindings: Bindings) -> bool:
    """Whether an output can be a variant of `module`."""
    # A modular file is a declaration, and its output the variant of a third file.
    if module.rpartition(".")[2].startswith("modular_"):
        return False
    # A part adds to a model, and is no model to follow.
    if module == PARTS or module.startswith(f"{PARTS}."):
        return False
    return bindings.flatten_scope.flattens(module)


MODULE = "patchgen.edits"


def makes_rewrites(chain: Iterable[tuple[ModuleIndex, Symbol]], bindings: Bindings) -> bool:
    """Whether a class of `chain` edits or removes what a class behind it has."""
    bodies: list[tuple[ModuleIndex, ast.ClassDef]] = []
    for index, symbol in chain:
        node = _find_statement(index, symbol.name)
        if node is not None:
            bodies.append((index, node))
    # The last class has nothing behind it.
    for place, (index, node) in enumerate(bodies[:-1]):
        if _makes_edits(index, node, bindings):
            return True
        behind: set[str] = set()
        for _, other in bodies[place + 1 :]:
            behind.update(bound_names(other.body))
        removed = {removed_name(statement) for statement in node.body}
        # Removing what no parent binds is no removal.
        if removed & behind:
            return True
    return False


def _find_statement(index: ModuleIndex, name: str) -> ast.ClassDef | None:
    """The class statement of a chain; None where something else makes the class."""
    block = index.definition(name)
    # A class may also be made by a call, or be bound under a condition.
    if block is None or block.kind != "class":
        return None
    return find_class(block.text, name)


def _makes_edits(index: ModuleIndex, node: ast.ClassDef, bindings: Bindings) -> bool:
    """Whether a statement of the class body is an edit."""
    return any(is_edit(index, statement, bindings) for statement in node.body)


def is_edit(index: ModuleIndex, statement: ast.stmt, bindings: Bindings) -> bool:
    """Whether a statement of a class body edits a method: `@edit("forward")` stands above it."""
    # The words of an edit have to be imported, so most files need no look.
    if "patchgen" not in index.source.text:
        return False
    for decorator in getattr(statement, "decorator_list", []):
        written = ast.unparse(called_function(decorator))
        if bindings.dotted(index, written, index.source.at(1)) == Symbol(MODULE, "edit"):
            return True
    return False


def removed_name(node: ast.stmt) -> str | None:
    """The name that a statement of a class body removes."""
    match node:
        # `def x(self): raise AttributeError`, with or without a docstring that says why.
        case ast.FunctionDef(name=name, decorator_list=[], body=body):
            if ast.get_docstring(node, clean=False) is not None:
                body = body[1:]
            match body:
                case [ast.Raise(exc=exc, cause=None)] if _is_attribute_error(exc):
                    return name
        # `x = AttributeError()`, for what is no method.
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as value)
        ):
            if _is_attribute_error(value):
                return name
    return None


def _is_attribute_error(node: ast.expr | None) -> bool:
    """Whether an expression is `AttributeError`, called or not, with no more than a fixed text.

    `raise AttributeError(name)` is the body of a method, such as `__getattr__`.
    """
    if node is None:
        return False
    if isinstance(node, ast.Call):
        arguments = list_arguments(node)
        if not all(isinstance(argument, ast.Constant) for argument in arguments):
            return False
    called = called_function(node)
    return isinstance(called, ast.Name) and called.id == "AttributeError"
