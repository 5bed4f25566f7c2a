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

Only from methods of this form, whose branches each ask for a class: then what a branch does depends
on no other.  Where it is another form, or reads a field that the configuration may lack, nothing is
brought, and PG421 names what is not set.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import add_method
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import references_in
from patchgen.syntax.trees import parse_class

_NAME = "_init_weights"
_SUPER = "super()._init_weights(module)"
_ASKED = re.compile(r"isinstance\(module, (\w+)\)")
_METHOD = """@torch.no_grad()
def _init_weights(self, module):
    super()._init_weights(module)
"""


def bring_branches(gathered: Gathered, builder: Builder) -> Gathered:
    """Let the PreTrainedModel of the file initialise what was taken from other models."""
    models = [block for block in gathered.blocks if _is_pretrained(block)]
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
        body = "" if source is None else _select(source, gathered, builder)
        if source is None or not body:
            continue
        needed = _list_needed(body, source, imports, gathered)
        if needed is not None:
            imports |= {dependency.name: dependency for dependency in needed}
            dependencies = dict.fromkeys([*model.dependencies, *needed])
            text = _add(model.text, body)
            model = replace(model, text=text, dependencies=tuple(dependencies))
    blocks = tuple(model if block is models[0] else block for block in gathered.blocks)
    return replace(gathered, blocks=blocks, imports=tuple(imports.values()))


def _is_pretrained(block: FlatBlock) -> bool:
    """Whether this is what the models of a file have as a base."""
    names = [each.name for each in block.dependencies if each.symbol.name == "PreTrainedModel"]
    if block.kind != "class" or not names:
        return False
    return any(ast.unparse(base) in names for base in parse_class(block.text).bases)


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


def _select(source: RewrittenBlock, gathered: Gathered, builder: Builder) -> str:
    """What a method does for the classes of the file; "" where it has not the known form."""
    home = source.symbol.module
    taken = {block.name for block in gathered.blocks if block.origin.module == home}
    taken |= _list_imported(home, gathered, builder)
    kept: list[str] = []
    for node in _find_method(source.text).body:
        match node:
            case ast.Assign(targets=[ast.Name()], value=ast.Attribute()):
                kept.append(ast.unparse(node))
            case ast.If() if (branches := _select_branches(node, taken)) is not None:
                kept += branches
            case ast.Expr(value=ast.Constant()):
                pass
            case _ if ast.unparse(node) != _SUPER:
                return ""
    body = "\n".join(kept)
    known = _read_configuration(gathered, builder)
    fields = set(re.findall(r"\bself\.config\.(\w+)", body))
    is_whole = "isinstance(" in body and all(re.search(rf"\b{each}\b", known) for each in fields)
    return body if is_whole else ""


def _list_imported(module: str, gathered: Gathered, builder: Builder) -> set[str]:
    """The classes of a module that the file imports, and those that they are made of."""
    index = builder.index(module)
    symbols = [dependency.symbol for dependency in gathered.imports]
    names = [symbol.name for symbol in symbols if symbol.module == module]
    # The list grows while it is walked.
    for name in names:
        block = index.definition(name)
        names += sorted(block.uses - {*names}) if block is not None else []
    return {*names} & {*index.classes}


def _select_branches(node: ast.If, taken: Collection[str]) -> list[str] | None:
    """The branches that ask for classes of the file; None where one asks for something else."""
    branches = [node]
    # The list grows while it is walked.
    for branch in branches:
        match branch.orelse:
            case [ast.If() as other]:
                branches.append(other)
            case [_, *_]:
                return None
    kept: list[str] = []
    for branch in branches:
        asked = _ASKED.fullmatch(ast.unparse(branch.test))
        if asked is None:
            return None
        if asked[1] in taken:
            plain = ast.If(branch.test, branch.body, [])
            kept.append("el" * bool(kept) + ast.unparse(plain))
    return kept


def _read_configuration(gathered: Gathered, builder: Builder) -> str:
    """The text of the configuration of the model that the file follows."""
    module = str(gathered.base).replace(".modeling_", ".configuration_")
    if builder.naming.bindings.env.path(module) is None:
        return ""
    return builder.index(module).source.text


def _find_method(text: str) -> ast.FunctionDef:
    for node in parse_class(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == _NAME:
            return node
    return ast.parse(_METHOD).body[0]  # type: ignore[return-value]


def _list_needed(
    body: str, source: RewrittenBlock, imports: Mapping[str, Dependency], gathered: Gathered
) -> list[Dependency] | None:
    """What the statements read of other modules; None where the file lacks it or means another."""
    defined = {name for block in gathered.blocks for name in block.defines}
    needed: list[Dependency] = []
    for read in references_in(_METHOD + textwrap.indent(body, "    ")):
        symbol = source.dependencies.get(read.name)
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
    if f"def {_NAME}(" not in text:
        return add_method(text, _METHOD + textwrap.indent(body, "    "))
    method = _find_method(text)
    lines = text.split("\n")
    end = method.end_lineno or method.lineno
    added = textwrap.indent(body, " " * method.body[0].col_offset)
    return "\n".join([*lines[:end], added, *lines[end:]])
