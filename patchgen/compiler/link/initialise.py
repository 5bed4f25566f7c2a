"""Bring what initialises a block that is taken from another model.

    modular file         self.mlp = MixtralSparseMoeBlock(config)       in a layer of Llama

    MixtralPreTrainedModel, and LlamaPreTrainedModel in the output

        def _init_weights(self, module):
            super()._init_weights(module)
            std = self.config.initializer_range
            if isinstance(module, MixtralExperts):
                init.normal_(module.gate_up_proj, std=std)
            elif isinstance(module, MixtralTopKRouter):
                init.normal_(module.weight, std=std)

Each test is asked of each class that was taken (`weights` follows its constructor), so that a
branch for `"RMSNorm" in module.__class__.__name__` becomes one for Gemma2RMSNorm alone.  What the
model of the output does to all norms, and the block's own model does not, is undone:

    GemmaPreTrainedModel in the output, whose own norms begin with zeros

            if isinstance(module, LlamaRMSNorm):
                PreTrainedModel._init_weights(self, module)

A note says what is not as in the block's own model: where the method has another form, or reads a
field that the configuration lacks, and where one of the models treats a class of torch, such as
`nn.Linear`, in a way of its own: no test tells whose Linear it is.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import add_method, list_pretrained
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.bindings import is_kept
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import references_in
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import find_method, names_within, parse_class, walk
from patchgen.weights.machine import Machine, TooLongError
from patchgen.weights.values import (
    UNKNOWN,
    Call,
    Class,
    Frame,
    Home,
    Object,
    Outside,
    Values,
    is_filled,
    join,
)

_NAME = "_init_weights"
_BASE = "PreTrainedModel"
_BASES = (_BASE, "PreTrainedAudioTokenizerBase")
# What transformers does for all models.
_GENERAL = re.compile(r"(?:super\(\)|PreTrainedModel)\._init_weights\((?:self, )?module\)")
# What the model has besides its configuration.
_OTHERS = re.compile(r"\bself\.(?!config\b)")
# `cfg = self.config`
_HOLDER = re.compile(r"^ *(\w+) = self\.config$", re.MULTILINE)
# `config: LlamaConfig`
_CONFIGURATION = re.compile(r"^    config(?:_class)?(?::| =) (.+)$", re.MULTILINE)
# A branch that ends the method.
_LEAVING = re.compile(r"^ +return\b", re.MULTILINE)
# The fields in which transformers looks for the spread of new weights, and what it draws.
_SPREADS = ("initializer_range", "init_std", "initializer_factor")
_DRAWN = re.compile(r"nn\.(?:Linear|Embedding|Conv)")
_METHOD_HEAD = f"def {_NAME}(self, module"
_TREATED = "blocks of {module} are initialised as those of this model"
_UNWRITTEN = f"{_TREATED}: what its {{giver}}.{_NAME} does cannot be written here"
_METHOD = """@torch.no_grad()
def _init_weights(self, module):
    super()._init_weights(module)
"""


def bring_branches(gathered: Gathered, builder: Builder) -> Gathered:
    """Let each PreTrainedModel of the file initialise what was taken from other models."""
    models = list_pretrained(gathered.blocks)
    bindings = builder.bindings
    imports = {dependency.name: dependency for dependency in gathered.imports}
    changed: dict[str, FlatBlock] = {}
    for model in models:
        # Most files have one such class, and take nothing.
        reached = _list_reached(model, models, gathered) if len(models) > 1 else {}
        origins = _list_origins(reached, gathered)
        own = {rewritten.symbol.module for rewritten in model.rewritten} | builder.layers
        modules = {symbol.module for symbol in origins.values()}
        for module in sorted(modules - own):
            givers = _find_givers(module, builder) if module != gathered.base else []
            if not givers:
                continue
            names = {each.name: name for name, each in origins.items() if each.module == module}
            machine = Machine(bindings.env, bindings.follow)
            reached = reached or _list_reached(model, models, gathered)
            try:
                configurations = _list_configurations(reached, names, gathered, machine, builder)
                body, notes = _initialise(model, givers, names, configurations, machine, builder)
            except TooLongError:
                body = ""
                notes = [_UNWRITTEN]
            needed = _list_needed(body, givers[0], imports, gathered, builder)
            if needed is None or not _is_known(body, configurations, machine):
                body = ""
                needed = []
                notes = [_UNWRITTEN]
            said = [note.format(module=module, giver=givers[0].name) for note in notes]
            imports |= {dependency.name: dependency for dependency in needed}
            model = replace(
                model,
                text=_add(model.text, body) if body else model.text,
                dependencies=tuple(dict.fromkeys([*model.dependencies, *needed])),
                notes=(*model.notes, *said),
            )
        changed[model.name] = model
    blocks = tuple(changed.get(block.name, block) for block in gathered.blocks)
    return replace(gathered, blocks=blocks, imports=tuple(imports.values()))


def _list_origins(reached: Mapping[str, Collection[str]], gathered: Gathered) -> dict[str, Symbol]:
    """What the classes stand for that some models use, by their names, or all classes."""
    origins = {block.name: block.origin for block in gathered.blocks if block.kind == "class"}
    for block in gathered.blocks:
        # `if is_xlstm_available():` and its `else:` define classes.
        if block.kind == "guard":
            for name in block.defines:
                origins[name] = Symbol(block.origin.module, name)
    for dependency in gathered.imports:
        origins[dependency.name] = dependency.symbol
    if not reached:
        return origins
    used = set().union(*reached.values())
    return {name: symbol for name, symbol in origins.items() if name in used}


def _list_reached(
    model: FlatBlock, models: Sequence[FlatBlock], gathered: Gathered
) -> dict[str, set[str]]:
    """The classes below a PreTrainedModel, each with what it uses, but for what other models do."""
    blocks = {block.name: block for block in gathered.blocks}
    others = set[str]().union(*(_list_below(each, gathered) for each in models))
    reached = {}
    for below in _list_below(model, gathered):
        names = [below]
        # The list grows while it is walked.
        for name in names:
            if name in blocks:
                names += sorted({*blocks[name].reads}.difference(names, others))
        reached[below] = set(names)
    return reached


def _list_below(model: FlatBlock, gathered: Gathered) -> list[str]:
    """A class and those that derive from it."""
    bases: dict[str, list[str]] = {}
    for block in gathered.blocks:
        if block.kind == "class":
            written = parse_class(block.text).bases
            bases[block.name] = [ast.unparse(base) for base in written]
    names = [model.name]
    # The list grows while it is walked.
    for name in names:
        for heir, above in bases.items():
            if name in above and heir not in names:
                names.append(heir)
    return names


def _find_givers(module: str, builder: Builder) -> list[RewrittenBlock]:
    """The classes of a model's file that may initialise its blocks, in the names of the output."""
    if not module.startswith(f"{MODELS}.") or builder.bindings.env.path(module) is None:
        return []
    index = builder.index(module)
    givers = []
    for block in index.blocks:
        if block.kind == "class" and (_BASE in block.bases or _METHOD_HEAD in block.text):
            symbol = Symbol(module, block.name)
            givers.append(qualify_names(index, block, symbol, builder.naming))
    return givers


def _initialise(
    model: FlatBlock,
    givers: Sequence[RewrittenBlock],
    names: Mapping[str, str],
    configurations: Sequence[Object],
    machine: Machine,
    builder: Builder,
) -> tuple[str, list[str]]:
    """The statements for what was taken of a module, and what they leave out."""
    theirs = _read_methods(givers, machine, builder)
    upstream = [each for each in model.rewritten if each.symbol.module not in builder.layers]
    ours = _read_methods(upstream, machine, builder)
    # What the modular file says of a block is meant.
    written = [each for each in model.rewritten if each not in upstream]
    said = _read_methods(written, machine, builder)
    giver = givers[0]
    taken = _make_taken(giver.symbol.module, names, machine, builder)
    # What takes the place of a class that upstream names is treated as that one.
    named: set[str] = set()
    for method in ours:
        for node in method.body:
            named.update(name.id for name in names_within(node))
    taken = [each for each in taken if not (each.name in named or each.is_filled_by(said))]
    undone = [each.name for each in taken if each.is_filled_by(ours)]
    inner = [*_list_inner(taken, theirs)]
    other = {each.name for each in inner if each.is_filled_by([*ours, *theirs])}
    if len(givers) > 1 and (undone or any(each.is_filled_by(theirs) for each in taken)):
        return "", [_UNWRITTEN]
    body = _select(theirs[0], taken) if theirs else ""
    if body is None:
        return "", [_UNWRITTEN]
    if undone:
        general = [each.name for each in model.dependencies if each.symbol.name in _BASES]
        if not general:
            return "", [_UNWRITTEN]
        body = f"if {_ask_for(undone)}:\n    {general[0]}.{_NAME}(self, module)\n{body}"
    drawn = {each.name for each in inner if _DRAWN.match(each.name)}
    if drawn - other and configurations:
        own = _find_configurations(giver.text, giver.dependencies, machine, builder)
        spreads = [_read_spread(each, machine) for each in (*configurations, *own)]
        if any(each != spreads[0] for each in spreads):
            other |= drawn
    return body, [f"{', '.join(sorted(other))} in {_TREATED}"] if other else []


@dataclass(frozen=True)
class _Method:
    """What an `_init_weights` does for its own model, and where its names are looked up."""

    body: Sequence[ast.stmt]
    home: Home


def _read_methods(
    blocks: Sequence[RewrittenBlock], machine: Machine, builder: Builder
) -> list[_Method]:
    """The methods of classes; what transformers does for all models is left out."""
    methods = []
    for block in blocks:
        method = find_method(_GENERAL.sub("pass", block.text), _NAME)
        if method is not None:
            module = block.symbol.module
            home = machine.read_module(module) or Home(module, builder.index(module))
            methods.append(_Method(method.body, home))
    return methods


@dataclass(frozen=True)
class _Taken:
    """A module that was taken from a model, or is in one, with what names stand for there."""

    name: str
    module: Object
    names: Mapping[str, Values]
    machine: Machine

    def answer(self, test: ast.expr, before: Sequence[ast.stmt], home: Home) -> bool | None:
        """What a test below some statements says of the module; None where that is not known."""
        return self.machine.ask(test, before, self._make_frame(home))

    def is_filled_by(self, methods: Sequence[_Method]) -> bool:
        """Whether one of the methods may fill a tensor of the module."""
        return any(
            self.machine.fills(each.body, self.module, self._make_frame(each.home))
            for each in methods
        )

    def _make_frame(self, home: Home) -> Frame:
        return Frame(home, 0, {**self.names, "module": [self.module], "self": [UNKNOWN]})


def _make_taken(
    home: str, names: Mapping[str, str], machine: Machine, builder: Builder
) -> list[_Taken]:
    """The classes of a module that the file has or imports, and those that they are made of."""
    index = builder.index(home)
    place = machine.read_module(home)
    if place is None:
        return []
    kinds: dict[str, Values] = {}
    found = list(names)
    # The list grows while it is walked.
    for name in found:
        block = index.definition(name)
        if block is None:
            continue
        values = machine.find(place, name)
        kinds[names.get(name, name)] = values
        # A model initialises what is in it.
        if not any(isinstance(kind, Class) and machine.is_model(kind) for kind in values):
            found += sorted(block.uses.difference(found))
    taken: list[_Taken] = []
    for name, values in kinds.items():
        for kind in values:
            if isinstance(kind, Class) and not machine.is_model(kind):
                module = machine.make(kind, Call(0))
                taken.append(_Taken(name, module, kinds, machine))
                # A setting may choose the one activation of torch that has a weight.
                if "ACT2FN" in found:
                    module.slots["activation"] = [machine.make(Outside("torch.nn.PReLU"), Call(0))]
    return taken


def _list_inner(taken: Sequence[_Taken], methods: Sequence[_Method]) -> Iterator[_Taken]:
    """The modules in those that were taken whose classes are not of their file.

    But for those that the methods fill from the module that was taken.
    """
    for each in taken:
        each.is_filled_by(methods)
        inside = list(_walk_to(join(each.names.values()), each.module))
        for module in inside:
            if not is_filled(module):
                name = module.kind.name.removeprefix("torch.")
                yield replace(each, name=name, module=module)


def _walk_to(kinds: Values, module: Object) -> Iterator[Object]:
    """The modules in one, but for those of some classes and what is in these."""
    for inner in join(module.slots.values()):
        if isinstance(inner, Object) and inner.kind not in kinds:
            yield inner
            yield from _walk_to(kinds, inner)


def _select(method: _Method, taken: Sequence[_Taken]) -> str | None:
    """What a method does for the classes of the file; None where that cannot be written alone."""
    before: list[ast.stmt] = []
    kept: list[str] = []
    for node in method.body:
        match node:
            case ast.Assign(targets=[ast.Name()]) | ast.FunctionDef():
                before.append(node)
            case ast.If() if not any(isinstance(each, ast.Expr) for each in walk(node)):
                before.append(node)
            case ast.If():
                kept += _select_branches(node, before, taken, method.home)
            case _:
                alone = _Method([*before, node], method.home)
                if any(each.is_filled_by([alone]) for each in taken):
                    return None
    body = "\n".join(kept)
    for node in reversed(before):
        if any(re.search(rf"\b{name}\b", body) for name in bound_names([node])):
            body = f"{ast.unparse(node)}\n{body}"
    return None if _LEAVING.search(body) else body


def _select_branches(
    node: ast.If, before: Sequence[ast.stmt], taken: Sequence[_Taken], home: Home
) -> list[str]:
    """The branches of `node`, below some statements, for classes that were taken."""
    kept: list[str] = []
    waiting = list(taken)
    for test, body in _list_branches(node):
        answers = {each.name: each.answer(test, before, home) for each in waiting}
        condition = _write_condition(answers, ast.unparse(test))
        if condition:
            branch = ast.unparse(ast.If(ast.parse(condition, mode="eval").body, body, []))
            kept.append(f"el{branch}" if kept else branch)
        waiting = [each for each in waiting if not answers[each.name]]
    return kept


def _list_branches(node: ast.If) -> Iterator[tuple[ast.expr, list[ast.stmt]]]:
    """The tests of an `if` and its `elif`s with what they guard; `else` is always true."""
    yield node.test, node.body
    match node.orelse:
        case [ast.If() as other]:
            yield from _list_branches(other)
        case [_, *_]:
            yield ast.Constant(True), node.orelse


def _write_condition(answers: Mapping[str, bool | None], test: str) -> str:
    """When a branch is for the file: for some classes always, for others where the test says so."""
    always = [name for name, answer in answers.items() if answer]
    open_ = [name for name, answer in answers.items() if answer is None]
    conditions = [_ask_for(always)] if always else []
    if open_:
        asked = f"{_ask_for(open_)} and "
        if not test.startswith(asked):
            test = f"{asked}({test})"
        conditions.append(test)
    return " or ".join(conditions)


def _ask_for(names: Sequence[str]) -> str:
    listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"isinstance(module, {listed})"


def _is_known(body: str, configurations: Sequence[Object], machine: Machine) -> bool:
    """Whether models have what the statements read: nothing but fields of configurations."""
    holders = "|".join([r"self\.config", *_HOLDER.findall(body)])
    fields = set(re.findall(rf"\b(?:{holders})\.(\w+)", body))
    if _OTHERS.search(body) or (fields and not configurations):
        return False
    for each in configurations:
        if not all(_read_field(each, name, machine) for name in fields):
            return False
    return True


def _list_configurations(
    reached: Mapping[str, set[str]],
    names: Mapping[str, str],
    gathered: Gathered,
    machine: Machine,
    builder: Builder,
) -> list[Object]:
    """The configurations of the models that use some blocks themselves."""
    blocks = {block.name: block for block in gathered.blocks}
    # The class above the others comes first; it names blocks that it does not make.
    models = list(reached)[1:]
    holders = [each for each in models if reached[each].intersection(names.values())]
    found: list[Object] = []
    for name in holders or reached:
        owners = [blocks[name]]
        # The list grows while it is walked.
        for owner in owners:
            if _CONFIGURATION.search(owner.text):
                break
            bases = map(ast.unparse, parse_class(owner.text).bases)
            owners += [blocks[base] for base in bases if base in blocks]
        symbols = {each.name: each.symbol for each in owner.dependencies}
        found += _find_configurations(owner.text, symbols, machine, builder)
    return found


def _find_configurations(
    text: str, symbols: Mapping[str, Symbol], machine: Machine, builder: Builder
) -> Iterator[Object]:
    """The configurations that a model's class says that it has."""
    for annotation in _CONFIGURATION.findall(text):
        for name in re.findall(r"\w+", annotation):
            # What an import that is kept brings is in no file that is read.
            if name in symbols and not is_kept(symbols[name]):
                module = symbols[name].module
                home = machine.read_module(module) or Home(module, builder.index(module))
                for kind in machine.find(home, symbols[name].name):
                    if isinstance(kind, Class):
                        yield machine.make(kind, Call(0))


def _read_field(configuration: Object, name: str, machine: Machine) -> Values:
    """What a configuration has under a name; nothing where it lacks it."""
    for renamed in machine.find_member(configuration.kind, "attribute_map", [], None):
        if isinstance(renamed, dict) and name in renamed:
            name = renamed[name][0]
    stored = configuration.slots.get(name)
    return stored or machine.find_member(configuration.kind, name, [configuration], None)


def _read_spread(configuration: Object, machine: Machine) -> Values:
    """The spread with which transformers draws weights, if the configuration is not changed."""
    fields = [_read_field(configuration, name, machine) for name in _SPREADS]
    return next(filter(None, fields), [0.02])


def _list_needed(
    body: str,
    giver: RewrittenBlock,
    imports: Mapping[str, Dependency],
    gathered: Gathered,
    builder: Builder,
) -> list[Dependency] | None:
    """What the statements read of other modules; None where the file lacks it or means another."""
    module = giver.symbol.module
    defined = set[str]().union(*(block.defines for block in gathered.blocks))
    needed: list[Dependency] = []
    for read in references_in(_METHOD + textwrap.indent(body, "    ")):
        symbol = giver.dependencies.get(read.name)
        if symbol is None and read.name in builder.index(module).classes:
            symbol = Symbol(module, read.name)
        if read.name in defined or symbol is None:
            continue
        known = imports.get(read.name)
        if known is not None and known.symbol != symbol:
            return None
        home = module if known is None else known.home
        needed.append(Dependency(read.name, symbol, home, eager=False))
    return needed


def _add(text: str, body: str) -> str:
    """A class whose `_init_weights` ends with the statements `body`."""
    method = find_method(text, _NAME)
    if method is None:
        return add_method(text, _METHOD + textwrap.indent(body, "    "))
    lines = text.split("\n")
    end = method.end_lineno or method.lineno
    indent = " " * method.body[0].col_offset
    added = textwrap.indent(body, indent)
    return "\n".join([*lines[:end], added, *lines[end:]])
