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
branch for `"RMSNorm" in module.__class__.__name__` becomes one for Gemma2RMSNorm alone.  Where the
method has another form, or reads a field that the configuration lacks, nothing is brought: a note
says so, and PG421 names what is not set.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.flatblock import Builder, Dependency
from patchgen.compiler.link.footer import add_method, find_method, is_pretrained
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import references_in
from patchgen.syntax.bound import bound_names
from patchgen.weights.machine import Machine, TooLongError
from patchgen.weights.values import UNKNOWN, Call, Class, Frame, Home, Values

_NAME = "_init_weights"
_SUPER = "super()._init_weights(module)"
# What the model has besides its configuration.
_OTHERS = re.compile(r"\bself\.(?!config\b)")
_METHOD = """@torch.no_grad()
def _init_weights(self, module):
    super()._init_weights(module)
"""


def bring_branches(gathered: Gathered, builder: Builder) -> Gathered:
    """Let the PreTrainedModel of the file initialise what was taken from other models."""
    models = [block for block in gathered.blocks if is_pretrained(block)]
    # Which of several has the block is not known.
    if len(models) != 1 or gathered.base is None:
        return gathered
    model = models[0]
    own = {rewritten.symbol.module for rewritten in model.rewritten} | builder.layers
    modules = {block.origin.module for block in gathered.blocks if block.kind == "class"}
    modules |= {dependency.symbol.module for dependency in gathered.imports}
    imports = {dependency.name: dependency for dependency in gathered.imports}
    for module in sorted(modules - own - {gathered.base}):
        source = _find_source(module, builder)
        if source is None:
            continue
        body = _select(source, gathered, builder)
        taken = builder.index(module).classes
        needed = _list_needed(body or "", source, taken, imports, gathered)
        if body is None or needed is None:
            note = f"blocks of {module} are initialised as those of this model: what its "
            note += f"{source.symbol.name}.{_NAME} does cannot be written here"
            model = replace(model, notes=(*model.notes, note))
        elif body:
            imports |= {dependency.name: dependency for dependency in needed}
            dependencies = dict.fromkeys([*model.dependencies, *needed])
            text = _add(model.text, body)
            model = replace(model, text=text, dependencies=tuple(dependencies))
    blocks = tuple(model if block is models[0] else block for block in gathered.blocks)
    return replace(gathered, blocks=blocks, imports=tuple(imports.values()))


def _find_source(module: str, builder: Builder) -> RewrittenBlock | None:
    """The class with `_init_weights` of a module, in the names of the output; None of several."""
    if not module.startswith(f"{MODELS}.") or builder.naming.bindings.env.path(module) is None:
        return None
    index = builder.index(module)
    blocks = [block for block in index.blocks if f"def {_NAME}(" in block.text]
    if len(blocks) != 1 or blocks[0].kind != "class":
        return None
    symbol = Symbol(module, blocks[0].name)
    return qualify_names(index, blocks[0], symbol, builder.naming)


def _select(source: RewrittenBlock, gathered: Gathered, builder: Builder) -> str | None:
    """What a method does for the classes of the file; None where that cannot be written alone."""
    try:
        taken = _make_taken(source.symbol.module, gathered, builder)
    except TooLongError:
        return None
    before: list[ast.stmt] = []
    kept: list[str] = []
    method = find_method(source.text, _NAME)
    for node in method.body if method is not None and taken else ():
        match node:
            case ast.If() if "module" in ast.unparse(node.test):
                kept += _select_branches(node, before, taken)
            case ast.Assign(targets=[ast.Name()]) | ast.If():
                before.append(node)
            case ast.Expr(value=ast.Constant()):
                pass
            case _ if ast.unparse(node) != _SUPER:
                return None
    body = "\n".join(kept)
    for node in reversed(before):
        if any(re.search(rf"\b{name}\b", body) for name in bound_names([node])):
            body = f"{ast.unparse(node)}\n{body}"
    known = _read_configuration(gathered, builder)
    fields = set(re.findall(r"\bself\.config\.(\w+)", body))
    is_known = all(re.search(rf"\b{each}\b", known) for each in fields)
    return body if is_known and not _OTHERS.search(body) else None


@dataclass(frozen=True)
class _Taken:
    """A class that was taken from a model, with what names stand for in its `_init_weights`."""

    name: str
    names: Mapping[str, Values]
    machine: Machine
    home: Home

    def answer(self, test: ast.expr, before: Sequence[ast.stmt]) -> bool | None:
        """What a test below some statements says of an object; None where that is not known."""
        return self.machine.ask(test, before, Frame(self.home, 0, {**self.names}))


def _make_taken(home: str, gathered: Gathered, builder: Builder) -> list[_Taken]:
    """The classes of a module that the file has or imports."""
    names = {each.origin.name: each.name for each in gathered.blocks if each.origin.module == home}
    names |= _list_imported(home, gathered, builder)
    bindings = builder.naming.bindings
    machine = Machine(bindings.env, bindings.follow)
    place = machine.read_module(home)
    if place is None:
        return []
    kinds = {new: machine.find(place, old) for old, new in sorted(names.items())}
    taken: list[_Taken] = []
    for name, values in kinds.items():
        for kind in values:
            if isinstance(kind, Class) and not machine.is_model(kind):
                made = machine.make(kind, Call(0))
                known = {**kinds, "module": [made], "self": [UNKNOWN]}
                taken.append(_Taken(name, known, machine, place))
    return taken


def _list_imported(module: str, gathered: Gathered, builder: Builder) -> dict[str, str]:
    """The classes of a module that the file imports, and those that they are made of."""
    index = builder.index(module)
    imported = [each for each in gathered.imports if each.symbol.module == module]
    names = [each.symbol.name for each in imported]
    # The list grows while it is walked.
    for name in names:
        block = index.definition(name)
        names += sorted(block.uses - {*names}) if block is not None else []
    renamed = {each.symbol.name: each.name for each in imported}
    return {name: renamed.get(name, name) for name in names if name in index.classes}


def _select_branches(
    node: ast.If, before: Sequence[ast.stmt], taken: Sequence[_Taken]
) -> list[str]:
    """The branches of `node`, below some statements, for classes that were taken."""
    kept: list[str] = []
    waiting = list(taken)
    for test, body in _list_branches(node):
        answers = {each.name: each.answer(test, before) for each in waiting}
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


def _read_configuration(gathered: Gathered, builder: Builder) -> str:
    """The text of the configuration of the model that the file follows."""
    module = str(gathered.base).replace(".modeling_", ".configuration_")
    if builder.naming.bindings.env.path(module) is None:
        return ""
    return builder.index(module).source.text


def _list_needed(
    body: str,
    source: RewrittenBlock,
    taken: Collection[str],
    imports: Mapping[str, Dependency],
    gathered: Gathered,
) -> list[Dependency] | None:
    """What the statements read of other modules; None where the file lacks it or means another."""
    defined = {name for block in gathered.blocks for name in block.defines}
    needed: list[Dependency] = []
    for read in references_in(_METHOD + textwrap.indent(body, "    ")):
        symbol = source.dependencies.get(read.name)
        if symbol is None and read.name in taken:
            symbol = Symbol(source.symbol.module, read.name)
        if read.name in defined or symbol is None:
            continue
        known = imports.get(read.name)
        if known is not None and known.symbol != symbol:
            return None
        home = source.symbol.module if known is None else known.home
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
