"""Make one flat module: header, imports and blocks as text, before formatting.

`link_modules` has the steps, of which the last five are those of one output.  What cannot be
merged, or has its parent beside it, stays a subclass, and the steps begin anew:

    merge         the declared classes
    gather        what the outputs hold: the blocks, and the names that they import
    heads         generic heads, and models of models, use the models of the file
    imports       the import statements
    order         the blocks in an order in which Python can run them
    custom code   classes say that they are none; their checkpoint conversions are registered
    text          everything above as two texts, `opening` and `body`
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.collisions import find_conflicts
from patchgen.compiler.link.flatblock import BlockId, Builder, Dependency, FlatBlock
from patchgen.compiler.link.footer import IMPORT, render_conversions, write_is_custom_code
from patchgen.compiler.link.gather import Gathered, find_main_kind, gather_contents
from patchgen.compiler.link.header import (
    DOCSTRING_IMPORT,
    render_auto_docstring,
    render_exports,
    render_header,
)
from patchgen.compiler.link.heads import drop_kernels, rebind_heads, rebind_submodels
from patchgen.compiler.link.initialise import bring_branches
from patchgen.compiler.link.order import order_blocks
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import NameClash
from patchgen.compiler.plan.prefixes import MODELING, output_name
from patchgen.facts.modules import LOADED
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Refusals, problems_of
from patchgen.syntax.trees import names_within, parse_once, walk


@dataclass(frozen=True)
class FlatModule:
    """One output on its way through `link_module`, then complete but for banner and formatting.

    `opening` holds licence, docstring and the imports that the formatter may sort; `blocks` stand
    in `body` in this order.
    """

    builder: Builder
    gathered: Gathered
    imports: tuple[str, ...] = ()
    blocks: tuple[FlatBlock, ...] = ()
    ending: str = ""
    opening: str = ""
    body: str = ""

    @property
    def base(self) -> str | None:
        """The module that the output follows, if it follows one."""
        return self.gathered.base

    @property
    def kind(self) -> str:
        """The kind of the output: "modeling", "configuration", ..."""
        return self.gathered.kind


def use_own_models(gathered: Gathered, builder: Builder) -> Gathered:
    """Let models of models, and generic heads, use those of the file."""
    if gathered.kind != MODELING:
        return gathered
    if builder.declares:
        gathered = rebind_submodels(drop_kernels(gathered, builder), builder)
        gathered = bring_branches(gathered, builder)
    return rebind_heads(gathered, builder)


def register_custom_code(draft: FlatModule) -> FlatModule:
    """Make transformers treat the classes as its own."""
    if draft.kind != MODELING or not draft.builder.declares:
        return draft
    ending = render_conversions(draft.blocks, draft.builder)
    return replace(draft, blocks=write_is_custom_code(draft.blocks, draft.builder), ending=ending)


def write_text(draft: FlatModule) -> FlatModule:
    """Write the texts of the module."""
    gathered = draft.gathered
    builder = draft.builder
    # The docstring stands above the imports.
    docstring = [block for block in draft.blocks if block.kind == "doc"][:1]
    opening = [render_header(gathered, builder), *(block.text for block in docstring)]
    opening += draft.imports  # the formatter sorts them
    if draft.ending:
        opening.append(f"{IMPORT}\n")
    documentation = render_auto_docstring(gathered, builder) if builder.declares else ""
    if documentation:
        opening.append(DOCSTRING_IMPORT)
    blocks = [block for block in draft.blocks if block not in docstring]
    tail = builder.index(gathered.base).tail if gathered.base else ""
    # The comments at the end of the modular file follow its last statement; imports and `__all__`
    # are made for each output.
    modular = builder.plan.modular
    last = None
    for statement in modular.blocks:
        if statement.kind not in ("doc", "import") and not statement.is_of_exports:
            last = BlockId(modular.source.module, statement.first)
    if any(block.block_id == last for block in draft.blocks):
        tail += modular.tail
    body = documentation + assemble(blocks, tail, render_exports(gathered, builder))
    # Below `__all__`, as the statements read classes of the file.
    if draft.ending:
        body += f"\n\n{draft.ending}"
    return replace(draft, opening="".join(opening), body=body)


def link_module(gathered: Gathered, builder: Builder) -> FlatModule:
    """The flat module that holds `gathered`; raises PG403 where blocks cannot be ordered."""
    gathered = use_own_models(gathered, builder)
    imports = find_imports(gathered, builder)
    blocks = order_blocks(gathered, builder)
    draft = FlatModule(builder, gathered, imports, blocks)
    return write_text(register_custom_code(draft))


def assemble(blocks: Sequence[FlatBlock], tail: str, exports: str) -> str:
    """The blocks and the comments behind them; `exports` replaces statements about `__all__`."""
    parts = ["\n"]
    before = ""
    for block in blocks:
        # `__all__.append("x")` binds nothing.
        is_of_exports = not block.defines and block.text.startswith("__all__")
        if exports and (is_of_exports or "__all__" in block.defines):
            continue
        leading = block.leading or "\n"
        rewritten = block.rewritten[-1]
        # The comments above the first block are the licence, which stands in the header.
        if block.leading == rewritten.source.slice(1, rewritten.first - 1):
            leading = "\n\n"
        # The imports that stood between these two moved to the top: no blank line is left.
        if block.kind == before == "import" and not leading.strip():
            leading = ""
        parts.append(leading + block.text)
        before = block.kind
    if tail.strip():
        parts.append(tail)
    parts.append(exports)
    return "".join(parts)


def find_imports(gathered: Gathered, builder: Builder) -> tuple[str, ...]:
    """The import statements that the blocks of `gathered` need, absolute, each once.

    from ..llama.modeling_llama import rotate_half   (used, and carried as a block: no import)
    from ...activations import ACT2FN, gelu    ->    from transformers.activations import ACT2FN
    """
    needed = {dependency.name: dependency for dependency in gathered.imports}
    # The followed module first, so that its statements keep their order.
    homes = [gathered.base] if gathered.base else []
    homes += [dependency.home for dependency in gathered.imports]
    homes += sorted(home for _, home in gathered.homes)
    if gathered.kind == find_main_kind(builder):
        homes += builder.plan.modules
    statements: list[str] = []
    for home in dict.fromkeys(homes):
        statements += _select_imports(home, needed, gathered.homes, builder)
    naming = builder.naming
    # What patchgen itself has named is imported from where it is defined.
    for dependency in gathered.imports:
        if dependency.symbol in naming.apart:
            statements.append(_render_renamed(dependency))
        elif dependency.symbol.module == dependency.home:
            statements.append(f"from {dependency.home} import {dependency.name}\n")
    path = naming.plan.modular.source.path
    stem = path.rpartition("/")[2].removesuffix(".py")
    for kind, dependency in gathered.siblings:
        sibling = output_name(stem, kind)
        name = naming.resolve(dependency.symbol, dependency.home).name
        imported = _render_name(name, dependency.name)
        statements.append(f"from .{sibling} import {imported}\n")
    return tuple(dict.fromkeys(statements))


def _select_imports(
    home: str, needed: dict[str, Dependency], homes: frozenset[tuple[str, str]], builder: Builder
) -> Iterator[str]:
    index = builder.index(home)
    bindings = builder.bindings
    for block in index.blocks:
        wanted = []
        if block.kind == "import":
            for item in block.imports:
                dependency = needed.get(item.bound)
                # `import a.b` and `import a.c` bind one name, and both are needed.
                is_submodule = item.binds_package and "." in item.module
                is_read = dependency is not None and (
                    (is_submodule and (item.bound, home) in homes)
                    or (dependency.home == home and bindings.counts(index, item))
                )
                if is_read or _is_for_effect(item, index, builder):
                    wanted.append(item)
        if wanted:
            yield _render_import(index, block, wanted, builder)


def _render_import(index: ModuleIndex, block: Block, wanted: list[Import], builder: Builder) -> str:
    is_whole = len(wanted) == len(block.imports)
    is_absolute = not any(item.level for item in wanted)
    # A statement over several lines may have comments inside, and above.
    if is_whole and is_absolute and "\n" in block.text:
        # The comment above the first statement is the licence.
        above = [] if block is index.blocks[0] else block.leading.splitlines(True)
        comments = [line for line in above if line.startswith("#")]
        return "".join([*comments, block.text])
    statements = []
    for item in wanted:
        at = Location(index.source.module)
        module = builder.bindings.absolute(index, item.module, item.level, at)
        if item.binds_package:
            statements.append(f"import {module}\n")
        elif not item.name:
            statements.append(f"import {module} as {item.bound}\n")
        else:
            statements.append(f"from {module} import {_render_name(item.name, item.bound)}\n")
    return "".join(statements)


def _render_renamed(dependency: Dependency) -> str:
    """The import of what has another name in the flat file than where it comes from."""
    module = dependency.symbol.module
    name = dependency.symbol.name
    source = f"from {module} import {name}" if name else f"import {module}"
    return f"{source} as {dependency.name}\n"


def _is_for_effect(item: Import, index: ModuleIndex, builder: Builder) -> bool:
    """Whether a module is imported for what it does: nothing reads the name that it binds."""
    # `from a import b` without a use of b is most likely left over.
    if item.name or item.level:
        return False
    top = item.module.partition(".")[0]
    # Modules of the standard library change nothing by being imported; patchgen may not be there.
    if top in sys.stdlib_module_names or top in LOADED or top == "patchgen":
        return False
    if item.bound in (index.exports or ()) or any(item.bound in each.uses for each in index.blocks):
        return False
    return not builder.bindings.flatten_scope.flattens(item.module)


def _render_name(name: str, bound: str) -> str:
    return name if name == bound else f"{name} as {bound}"


# What a class has that cannot be merged, but can be inherited.
_OF_MERGING = {"PG201", "PG214", "PG223", "PG224", "PG225"}


def link_modules(builder: Builder) -> tuple[Builder, tuple[FlatModule, ...]]:
    """The builder and all outputs; raises the problems of the first step that has any.

    The builder that is given back has the final names, and knows which classes stay subclasses.
    """
    try:
        subclasses = merge_classes(builder)
        if not subclasses:
            contents = gather_contents(builder)
            subclasses = find_subclasses(contents, builder)
        if not subclasses:
            return builder, tuple(link_module(gathered, builder) for gathered in contents)
        builder = builder.keep_subclasses(subclasses)
    except NameClash as clash:
        if not clash.symbols:
            raise
        builder = builder.set_apart(clash.symbols)
    # At least one class more stays a subclass, or has a name of its own: there is a last time.
    return link_modules(builder)


def merge_classes(builder: Builder) -> dict[Symbol, str]:
    """Merge every declared class; gives those that have to stay subclasses, and why.

    Raises Refusals with what is wrong with each of the others.
    """
    problems = list(find_conflicts(builder))
    subclasses: dict[Symbol, str] = {}
    for declaration in builder.plan.declarations:
        for block_id in builder.block_ids(declaration.symbol):
            try:
                builder.block(block_id)
            except NameClash:
                raise
            except PatchgenError as error:
                wrong = problems_of(error)
                if {problem.code for problem in wrong} <= _OF_MERGING and not declaration.rewrites:
                    subclasses[declaration.symbol] = wrong[0].what
                else:
                    problems += wrong
    if problems:
        raise Refusals(problems)
    return subclasses


def find_subclasses(contents: Sequence[Gathered], builder: Builder) -> dict[Symbol, str]:
    """The merged classes whose parent stands in an output as well, and why.

    Raises PatchgenError PG119 where such a class edits or removes what it inherits, which a
    subclass cannot, and code asks for the parent.
    """
    blocks: list[FlatBlock] = []
    for gathered in contents:
        blocks += gathered.blocks
    carried = {block.symbol: block for block in blocks if block.kind == "class"}
    kept: dict[Symbol, str] = {}
    for symbol in carried:
        declaration = builder.plan.declaration(symbol)
        if declaration is None or not declaration.is_merged:
            continue
        for parent in declaration.parents:
            if parent in carried and declaration.rewrites:
                _refuse_questions(symbol.name, parent, carried[parent].name, blocks)
            elif parent in carried:
                kept.setdefault(symbol, f"{carried[parent].name} stands in the file as well")
    return kept


def _refuse_questions(heir: str, parent: Symbol, name: str, blocks: Sequence[FlatBlock]) -> None:
    """Raise PG119 where code reads `parent`, which is called `name` and was merged into `heir`.

    A base, a call, and an annotation of a function do not ask what its subclasses are.
    """
    for block in blocks:
        # Most blocks do not name the class, and need not be parsed.
        if all(used.symbol != parent for used in block.dependencies):
            continue
        tree = parse_once(block.text)
        harmless: set[int] = set()
        for node in walk(tree):
            match node:
                case ast.ClassDef(bases=bases):
                    harmless |= set(map(id, bases))
                case ast.Call(func=called):
                    harmless.add(id(called))
                case (
                    ast.arg(annotation=ast.expr() as annotation)
                    | ast.FunctionDef(returns=ast.expr() as annotation)
                ):
                    harmless |= set(map(id, walk(annotation)))
        for read in names_within(tree):
            if read.id == name and isinstance(read.ctx, ast.Load) and id(read) not in harmless:
                # In a merged class, the line is not known.
                place = (1, 0) if len(block.rewritten) > 1 else (read.lineno, read.col_offset)
                asking = block.name or "a statement"
                what = f"{asking} asks for {parent}, which is merged into {heir}"
                hint = f"{heir} would be its subclass if it did not edit or remove what it inherits"
                raise PatchgenError("PG119", block.rewritten[0].at(*place), what, hint)
