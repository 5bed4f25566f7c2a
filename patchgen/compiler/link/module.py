"""Make one flat module: header, imports and blocks as text, before formatting.

`PASSES` lists the steps.  Each takes a `Draft` and returns it with more filled in, or the same one
where it has nothing to do; `patchgen explain` prints what each of them left:

    blocks        what the output holds: the blocks, and the names that it imports
    heads         generic heads stand on the base model of the file
    imports       the import statements
    order         the blocks in an order in which Python can run them
    custom        classes say that they are none; their checkpoint conversions are registered
    text          everything above as two texts, `opening` and `body`
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.collisions import find_conflicts
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.footer import IMPORT, render_conversions, write_is_custom_code
from patchgen.compiler.link.gather import Gathered, gather_blocks, list_kinds
from patchgen.compiler.link.header import (
    DOCSTRING_IMPORT,
    render_auto_docstring,
    render_exports,
    render_header,
)
from patchgen.compiler.link.heads import rebind_heads, rebind_submodels
from patchgen.compiler.link.imports import NeededImport, find_needed_imports, render_imports
from patchgen.compiler.link.order import order_blocks
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.syntax.blocks import Block
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.trees import list_parameters, names_within, parse_once


@dataclass(frozen=True)
class FlatModule:
    """One output, complete but for banner and formatting; `blocks` stand in `body` in this order.

    `opening` holds licence, docstring and the imports that the formatter may sort.  `requests` are
    the symbols that it imports from outputs of other kinds.
    """

    kind: str
    base: str | None
    opening: str
    body: str
    blocks: tuple[FlatBlock, ...]
    requests: tuple[tuple[str, Symbol], ...]
    passes: tuple[tuple[str, str], ...] = ()  # the name of each, and what it left


@dataclass(frozen=True)
class Draft:
    """A flat module on its way through `PASSES`.

    `requested` are the symbols that other outputs import from this one.
    """

    kind: str
    requested: tuple[Symbol, ...]
    builder: Builder
    gathered: Gathered
    imports: tuple[NeededImport, ...] = ()
    blocks: tuple[FlatBlock, ...] = ()
    ending: str = ""
    opening: str = ""
    body: str = ""

    @property
    def declares(self) -> bool:
        """Whether the plan changes anything; the one of a diff base does not."""
        return bool(self.builder.naming.plan.modular.blocks)


Pass = Callable[[Draft], Draft]


def gather(draft: Draft) -> Draft:
    """Collect the blocks and imports that the output needs."""
    gathered = gather_blocks(draft.kind, draft.requested, draft.builder)
    return replace(draft, gathered=gathered)


def put_models_on_own_models(draft: Draft) -> Draft:
    """Let models that are made of models use those of the file."""
    if draft.kind != MODELING or not draft.declares:
        return draft
    gathered = rebind_submodels(draft.gathered, draft.builder)
    return draft if gathered == draft.gathered else replace(draft, gathered=gathered)


def put_heads_on_own_model(draft: Draft) -> Draft:
    """Let generic heads use the base model of the file."""
    if draft.kind != MODELING:
        return draft
    gathered = rebind_heads(draft.gathered, draft.builder)
    return draft if gathered == draft.gathered else replace(draft, gathered=gathered)


def choose_imports(draft: Draft) -> Draft:
    """Find the import statements."""
    return replace(draft, imports=find_needed_imports(draft.gathered, draft.builder))


def order(draft: Draft) -> Draft:
    """Order the blocks."""
    return replace(draft, blocks=order_blocks(draft.gathered, draft.builder))


def register_custom_code(draft: Draft) -> Draft:
    """Make transformers treat the classes as its own."""
    if draft.kind != MODELING or not draft.declares:
        return draft
    ending = render_conversions(draft.blocks, draft.builder)
    blocks = write_is_custom_code(draft.blocks, draft.builder)
    if not ending and blocks == draft.blocks:
        return draft
    return replace(draft, blocks=blocks, ending=ending)


def write_text(draft: Draft) -> Draft:
    """Write the texts of the module."""
    gathered, builder = draft.gathered, draft.builder
    # The docstring stands above the imports.
    docstring = [block for block in draft.blocks if block.kind == "doc"][:1]
    opening = [render_header(gathered, builder)]
    opening += [block.text for block in docstring]
    opening += _render_imports_at_top(draft)
    documentation = render_auto_docstring(gathered, builder) if draft.declares else ""
    if documentation:
        opening.append(DOCSTRING_IMPORT)
    blocks = [block for block in draft.blocks if block not in docstring]
    tail = _find_tail(draft)
    if gathered.base:
        tail = builder.index(gathered.base).tail + tail
    body = documentation + assemble(blocks, tail, render_exports(gathered, builder))
    # Below `__all__`, as the statements read classes of the file.
    if draft.ending:
        body += f"\n\n{draft.ending}"
    return replace(draft, opening="".join(opening), body=body)


def _find_tail(draft: Draft) -> str:
    """The comments at the end of the modular file, if its last statement is in this output."""
    modular = draft.builder.naming.plan.modular
    last = [block.first for block in modular.blocks if _is_carried(block)][-1:]
    home = modular.source.module
    held = [block.block_id.first for block in draft.blocks if block.block_id.module == home]
    return modular.tail if last and last[0] in held else ""


def _is_carried(block: Block) -> bool:
    """Whether a statement goes to one output: imports and `__all__` are made for each."""
    return block.kind not in ("doc", "import") and not block.is_of_exports


def _render_imports_at_top(draft: Draft) -> list[str]:
    """The import statements that the formatter may sort."""
    imports = [*render_imports(draft.gathered, draft.imports, draft.builder)]
    if draft.ending:
        imports.append(f"{IMPORT}\n")
    return imports


PASSES: tuple[tuple[str, Pass, Callable[[Draft], str]], ...] = (
    ("blocks", gather, lambda draft: _count(draft.gathered.blocks, "block")),
    (
        "models",
        put_models_on_own_models,
        lambda draft: "inner models are those of the file",
    ),
    ("heads", put_heads_on_own_model, lambda draft: "generic heads use the model of the file"),
    ("imports", choose_imports, lambda draft: _count(draft.imports, "imported name")),
    ("order", order, lambda draft: _count(draft.blocks, "block") + " in order"),
    ("custom", register_custom_code, lambda draft: "classes say that they are none"),
    ("text", write_text, lambda draft: _count_lines(draft.opening + draft.body)),
)


def _count(things: Sequence[object], what: str) -> str:
    """`1 block`, `2 blocks`."""
    plural = "" if len(things) == 1 else "s"
    return f"{len(things)} {what}{plural}"


def _count_lines(text: str) -> str:
    return _count(text.splitlines(), "line")


def link_module(kind: str, requested: tuple[Symbol, ...], builder: Builder) -> FlatModule:
    """Make the flat module of `kind`; `requested` are symbols that other outputs import from it.

    Raises PatchgenError PG4xx where names clash or blocks cannot be ordered.
    """
    draft = Draft(kind, requested, builder, Gathered(kind, None, (), (), ()))
    passes: list[tuple[str, str]] = []
    for name, step, describe in PASSES:
        before, draft = draft, step(draft)
        passes.append((name, "nothing to do" if draft is before else describe(draft)))
    requests = []
    for sibling, dependency in draft.gathered.siblings:
        key = builder.naming.resolve(dependency.symbol, dependency.home).key
        assert key is not None
        requests.append((sibling, key))
    return FlatModule(
        kind=kind,
        base=draft.gathered.base,
        opening=draft.opening,
        body=draft.body,
        blocks=draft.blocks,
        requests=tuple(requests),
        passes=tuple(passes),
    )


def assemble(blocks: Sequence[FlatBlock], tail: str, exports: str) -> str:
    """Join the blocks and the comments behind the last one.

    `exports`, where it is not empty, replaces every statement about `__all__`.
    """
    parts, before = ["\n"], ""
    for block in blocks:
        if exports and _concerns_exports(block):
            continue
        leading = _find_leading(block)
        # The imports that stood between these two moved to the top: no blank line is left.
        if block.kind == before == "import" and not leading.strip():
            leading = ""
        parts.append(leading + block.text)
        before = block.kind
    if tail.strip():
        parts.append(tail)
    parts.append(exports)
    return "".join(parts)


def _concerns_exports(block: FlatBlock) -> bool:
    """Whether a statement binds or changes `__all__`."""
    if "__all__" in block.defines:
        return True
    # `__all__.append("x")` binds nothing.
    return not block.defines and block.text.startswith("__all__")


def _find_leading(block: FlatBlock) -> str:
    """The comments above a block."""
    rewritten = block.rewritten[-1]
    # The comments above the first block are the licence, which stands in the header.
    is_licence = block.leading == rewritten.source.slice(1, rewritten.first - 1)
    if is_licence:
        return "\n\n"
    return block.leading or "\n"


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
