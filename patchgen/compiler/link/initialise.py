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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import add_method, find_method, is_pretrained
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.compiler.plan.prefixes import kind_of_module
from patchgen.facts.modules import CONFIGURATION, MODELS
from patchgen.syntax.blocks import references_in
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import parse_class, walk
from patchgen.weights.machine import Machine, TooLongError
from patchgen.weights.values import (
    UNKNOWN,
    Call,
    Class,
    Frame,
    Home,
    Object,
    Values,
    is_filled,
    join,
)

_NAME = "_init_weights"
_BASE = "PreTrainedModel"
# What transformers does for all models.
_GENERAL = re.compile(r"(?:super\(\)|PreTrainedModel)\._init_weights\((?:self, )?module\)")
# What the model has besides its configuration.
_OTHERS = re.compile(r"\bself\.(?!config\b)")
# `cfg = self.config`
_HOLDER = re.compile(r"^ *(\w+) = self\.config$", re.MULTILINE)
# A branch that ends the method.
_LEAVING = re.compile(r"^ +return\b", re.MULTILINE)
_METHOD_HEAD = f"def {_NAME}(self, module"
_TREATED = "blocks of {module} are initialised as those of this model"
_UNWRITTEN = f"{_TREATED}: what its {{giver}}.{_NAME} does cannot be written here"
_METHOD = """@torch.no_grad()
def _init_weights(self, module):
    super()._init_weights(module)
"""


def bring_branches(gathered: Gathered, builder: Builder) -> Gathered:
    """Let each PreTrainedModel of the file initialise what was taken from other models."""
    models = [block for block in gathered.blocks if is_pretrained(block)]
    imports = {dependency.name: dependency for dependency in gathered.imports}
    changed: dict[str, FlatBlock] = {}
    for model in models:
        origins = _list_origins(model, models, gathered)
        own = {rewritten.symbol.module for rewritten in model.rewritten} | builder.layers
        for module in sorted({symbol.module for symbol in origins.values()} - own):
            givers = _find_givers(module, builder) if module != gathered.base else []
            if not givers:
                continue
            names = {each.name: name for name, each in origins.items() if each.module == module}
            body, notes = _initialise(model, givers, names, builder)
            needed = _list_needed(body, givers[0], imports, gathered, builder)
            if needed is None or not _is_known(body, model, builder):
                body, needed, notes = "", [], [_UNWRITTEN]
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


def _list_origins(
    model: FlatBlock, models: Sequence[FlatBlock], gathered: Gathered
) -> dict[str, Symbol]:
    """What the classes stand for that the models below a PreTrainedModel use, by their names."""
    origins = {block.name: block.origin for block in gathered.blocks if block.kind == "class"}
    origins |= {dependency.name: dependency.symbol for dependency in gathered.imports}
    if len(models) == 1:
        return origins
    used = list(_list_below(model, gathered))
    # Other models initialise themselves.
    others = [name for each in models if each is not model for name in _list_below(each, gathered)]
    blocks = {block.name: block for block in gathered.blocks}
    # The list grows while it is walked.
    for name in used:
        if name in blocks:
            read = {dependency.name for dependency in blocks[name].dependencies}
            used += sorted(read.difference(used, others))
    return {name: symbol for name, symbol in origins.items() if name in used}


def _list_below(model: FlatBlock, gathered: Gathered) -> list[str]:
    """A class and those that derive from it."""
    classes = [block for block in gathered.blocks if block.kind == "class"]
    above: dict[str, list[str]] = {}
    for block in classes:
        above[block.name] = [ast.unparse(base) for base in parse_class(block.text).bases]
    names = [model.name]
    # The list grows while it is walked.
    for name in names:
        names += [each for each, known in above.items() if name in known and each not in names]
    return names


def _find_givers(module: str, builder: Builder) -> list[RewrittenBlock]:
    """The classes of a model's file that may initialise its blocks, in the names of the output."""
    if not module.startswith(f"{MODELS}.") or builder.naming.bindings.env.path(module) is None:
        return []
    index, givers = builder.index(module), []
    for block in index.blocks:
        if block.kind == "class" and (_BASE in block.bases or _METHOD_HEAD in block.text):
            symbol = Symbol(module, block.name)
            givers.append(qualify_names(index, block, symbol, builder.naming))
    return givers


def _initialise(
    model: FlatBlock, givers: Sequence[RewrittenBlock], names: Mapping[str, str], builder: Builder
) -> tuple[str, list[str]]:
    """The statements for what was taken of a module, and what they leave out."""
    machine = Machine(builder.naming.bindings.env, builder.naming.bindings.follow)
    theirs = _read_methods(givers, machine, builder)
    upstream = [each for each in model.rewritten if each.symbol.module not in builder.layers]
    ours = _read_methods(upstream, machine, builder)
    # What the modular file says of a block is meant.
    written = [each for each in model.rewritten if each not in upstream]
    said = _read_methods(written, machine, builder)
    try:
        taken = _make_taken(givers[0].symbol.module, names, machine, builder)
        taken = [each for each in taken if not each.is_filled_by(said)]
        undone = [each.name for each in taken if each.is_filled_by(ours)]
        inner = {
            each.name for each in _list_inner(taken, theirs) if each.is_filled_by([*ours, *theirs])
        }
        if len(givers) > 1 and (undone or any(each.is_filled_by(theirs) for each in taken)):
            return "", [_UNWRITTEN]
        body = _select(theirs[0], taken) if theirs else ""
    except TooLongError:
        return "", [_UNWRITTEN]
    if body is None:
        return "", [_UNWRITTEN]
    if undone:
        base = next(each.name for each in model.dependencies if each.symbol.name == _BASE)
        body = f"if {_ask_for(undone)}:\n    {base}.{_NAME}(self, module)\n{body}"
    return body, [f"{', '.join(sorted(inner))} in {_TREATED}"] if inner else []


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
    found = list(names)
    # The list grows while it is walked.
    for name in found:
        block = index.definition(name)
        found += sorted(block.uses.difference(found)) if block is not None else []
    kinds = {
        names.get(name, name): machine.find(place, name)
        for name in found
        if place is not None and name in index.classes
    }
    taken: list[_Taken] = []
    for name, values in kinds.items():
        for kind in values:
            if isinstance(kind, Class) and not machine.is_model(kind):
                taken.append(_Taken(name, machine.make(kind, Call(0)), kinds, machine))
    return taken


def _list_inner(taken: Sequence[_Taken], methods: Sequence[_Method]) -> Iterator[_Taken]:
    """The modules in those that were taken whose classes are not of their file.

    But for those that the methods fill from the module that was taken.
    """
    for each in taken:
        each.is_filled_by(methods)
        inside = list(_walk_to(join(each.names.values()), each.module))
        for module in [module for module in inside if not is_filled(module)]:
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
            branch = ast.If(ast.parse(condition, mode="eval").body, body, [])
            kept.append("el" * bool(kept) + ast.unparse(branch))
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
        conditions.append(test if test.startswith(asked) else f"{asked}({test})")
    return " or ".join(conditions)


def _ask_for(names: Sequence[str]) -> str:
    listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"isinstance(module, {listed})"


def _is_known(body: str, model: FlatBlock, builder: Builder) -> bool:
    """Whether the model has what the statements read: nothing but fields of its configuration."""
    holders = "|".join([r"self\.config", *_HOLDER.findall(body)])
    fields = set(re.findall(rf"\b(?:{holders})\.(\w+)", body))
    texts = _list_configurations(model, builder) if fields else []
    is_known = all(re.search(rf"\b{each}\b", "".join(texts)) for each in fields)
    return is_known and not _OTHERS.search(body)


def _list_configurations(model: FlatBlock, builder: Builder) -> list[str]:
    """The texts of the modular files, and of the configurations that these or a model import."""
    bindings = builder.naming.bindings
    modules = {CONFIGURATION}
    for home in [*builder.layers, *(each.symbol.module for each in model.rewritten)]:
        index = builder.index(home)
        imported = [bindings.imported_symbol(index, item).module for item in index.imports]
        modules |= {each for each in imported if kind_of_module(each) == "configuration"}
    known = [each for each in modules if bindings.env.path(each) is not None]
    return [builder.index(each).source.text for each in [*builder.layers, *known]]


def _list_needed(
    body: str,
    giver: RewrittenBlock,
    imports: Mapping[str, Dependency],
    gathered: Gathered,
    builder: Builder,
) -> list[Dependency] | None:
    """What the statements read of other modules; None where the file lacks it or means another."""
    module = giver.symbol.module
    defined = {name for block in gathered.blocks for name in block.defines}
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
    added = textwrap.indent(body, " " * method.body[0].col_offset)
    return "\n".join([*lines[:end], added, *lines[end:]])
