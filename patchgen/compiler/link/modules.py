"""Link every output of a modular file.

A class is merged with its parents.  Where the output has the parent as well, because other code
names it, the class is its subclass instead, as it is in Python:

    class LlamaMLP(llama.LlamaMLP): ...             class _LlamaMLPParent(nn.Module): ...
    class Layer(llama.LlamaDecoderLayer):    ->
        plain = llama.LlamaMLP                      class LlamaMLP(_LlamaMLPParent): ...

In: a function that makes a `Builder`, given the classes that are subclasses.  Out: the modules.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.compiler.link.conflicts import find_conflicts
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.gather import list_kinds
from patchgen.compiler.link.module import FlatModule, link_module
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.trees import list_parameters, names_within, parse_once

# The classes that are subclasses of a parent in the output, with the reason.
Kept = Mapping[Symbol, str]


@dataclass(frozen=True)
class Linked:
    """The modules of a modular file, and the builder that made their blocks."""

    builder: Builder
    modules: tuple[FlatModule, ...]


def link_modules(make_builder: Callable[[Kept], Builder]) -> Linked:
    """Link all outputs.  Raises PatchgenError with every problem of the first step that has any."""
    kept: dict[Symbol, str] = {}
    # Each round keeps at least one class more, so that there is a last one.
    while True:
        builder = make_builder(kept)
        merge_classes(builder)
        modules = _link_all(builder)
        blocks = [block for module in modules for block in module.blocks]
        subclasses = find_subclasses(blocks, builder)
        if not subclasses:
            return Linked(builder, modules)
        kept |= subclasses


def merge_classes(builder: Builder) -> None:
    """Merge every declared class.

    Raises Refusals with what is wrong with each of them, so that one run reports all of it.
    """
    problems: list[Problem] = list(find_conflicts(builder))
    for declaration in builder.naming.plan.declarations:
        for block_id in builder.block_ids(declaration.symbol):
            try:
                builder.block(block_id)
            except PatchgenError as error:
                problems += problems_of(error)
    if problems:
        raise Refusals(problems)


# Parents that the output has as well


def find_subclasses(blocks: Sequence[FlatBlock], builder: Builder) -> dict[Symbol, str]:
    """The merged classes among `blocks` whose parent stands in the output as well, and why.

    Raises PatchgenError PG119 where such a class edits or removes what it inherits, which a
    subclass cannot, and code asks for the parent.
    """
    carried = {block.rewritten[0].symbol: block for block in blocks if block.kind == "class"}
    found: dict[Symbol, str] = {}
    for block in blocks:
        declaration = builder.naming.plan.declaration(block.rewritten[0].symbol)
        if declaration is None or not declaration.is_merged:
            continue
        for parent in declaration.parents:
            if parent not in carried:
                continue
            if declaration.rewrites:
                _refuse_questions(declaration, carried[parent], parent, blocks)
            else:
                why = f"{carried[parent].name} stands in the file as well"
                found.setdefault(declaration.symbol, why)
    return found


def _refuse_questions(
    declaration: Declaration, carried: FlatBlock, parent: Symbol, blocks: Sequence[FlatBlock]
) -> None:
    """Raise PG119 where code of `blocks` uses `parent` in a way that depends on its subclasses."""
    for block in blocks:
        # Most blocks do not name the class, and need not be parsed.
        if all(used.symbol != parent for used in block.dependencies):
            continue
        at = _find_question(block, carried.name)
        if at is not None:
            name = declaration.symbol.name
            asking = block.name or "a statement"
            what = f"{asking} asks for {parent}, which is merged into {name}"
            hint = f"{name} would be its subclass if it did not edit or remove what it inherits"
            raise PatchgenError("PG119", at, what, hint)


def _find_question(block: FlatBlock, name: str) -> Location | None:
    """Where a block reads a class other than as a base, in an annotation or to make an object."""
    tree = parse_once(block.text)
    harmless = {id(node) for node in _find_harmless_uses(tree)}
    for node in names_within(tree):
        is_read = node.id == name and isinstance(node.ctx, ast.Load)
        if is_read and id(node) not in harmless:
            rewritten = block.rewritten[0]
            # In a merged class, the line is not known.
            is_merged = len(block.rewritten) > 1
            return rewritten.at(1, 0) if is_merged else rewritten.at(node.lineno, node.col_offset)
    return None


def _find_harmless_uses(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that name a class whatever its subclasses are."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.Call(func=ast.Name() as called):
                yield called
            # A decorator might read the annotations.
            case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]):
                annotations = [parameter.annotation for parameter in list_parameters(node.args)]
                for annotation in [*annotations, node.returns]:
                    if annotation is not None:
                        yield from ast.walk(annotation)


def _link_all(builder: Builder) -> tuple[FlatModule, ...]:
    """The module of every kind that is declared, and of those that they import from in turn."""
    requested: dict[str, tuple[Symbol, ...]] = dict.fromkeys(list_kinds(builder), ())
    while True:
        modules = tuple(link_module(kind, symbols, builder) for kind, symbols in requested.items())
        wanted = dict(requested)
        for module in modules:
            for kind, symbol in module.requests:
                known = wanted.get(kind, ())
                if symbol not in known:
                    wanted[kind] = (*known, symbol)
        # A module that another one imports more from may need other modules in turn.
        if wanted == requested:
            return modules
        requested = wanted
