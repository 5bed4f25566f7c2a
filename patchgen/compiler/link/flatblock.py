"""Make one block of a flat file.

    modular file                            flat file

    class TinyMLP(llama.LlamaMLP):          class TinyMLP(nn.Module):
        def scale(self):                        def __init__(self, config): ...    # the parent's
            return 2                            def scale(self):
                                                    return 2

A block is made on demand.  A class of a modular file is merged with its parents by the function
that the caller passes in, because `link` does not know `merge`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from patchgen.compiler.link.dependencies import Dependency, find_dependencies
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.link.strings import note_data_strings, quote_own_name
from patchgen.compiler.plan.changes import Changes
from patchgen.compiler.plan.declare import Declaration, check_language
from patchgen.compiler.plan.flatten_scope import PARTS
from patchgen.compiler.plan.lineage import Lineages, bases_of
from patchgen.compiler.plan.model import ClassPlan, MergedClass, RewrittenBlock, Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.plan.outside import outside
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import parse_class

Merge = Callable[[ClassPlan], MergedClass]


@dataclass(frozen=True, slots=True, order=True)
class BlockId:
    """A block of a module, by the line on which it begins."""

    module: str
    first: int


@dataclass(frozen=True, slots=True)
class FlatBlock:
    """A block in the names of the flat file.

    `rewritten` are the blocks that it was made from, the modular file's first.  `parents` are the
    classes that a class of a modular file derives from, merged or not.  `aside`: a parent whose
    name was given to its subclass.
    """

    block_id: BlockId
    kind: str
    name: str
    leading: str
    text: str
    dependencies: tuple[Dependency, ...]
    defines: tuple[str, ...]
    rewritten: tuple[RewrittenBlock, ...]
    notes: tuple[str, ...] = ()
    parents: tuple[Symbol, ...] = ()
    aside: bool = False

    @property
    def origin(self) -> Symbol:
        """The upstream definition that the block stands for, or its own."""
        if self.parents:
            return self.parents[-1]
        return self.rewritten[-1].symbol


@dataclass(frozen=True)
class Builder:
    """Makes the flat blocks of one plan, each once."""

    naming: Naming
    lineages: Lineages
    merge: Merge
    # What `execution.find_executed` has found.
    executed: dict[BlockId, tuple[str, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _indexes: dict[str, ModuleIndex] = field(default_factory=dict, repr=False, compare=False)
    _made: dict[BlockId, FlatBlock] = field(default_factory=dict, repr=False, compare=False)
    # The modules that are known to be in the language.
    _checked: set[str] = field(default_factory=set, repr=False, compare=False)
    _acting: dict[str, Mapping[Symbol, list[int]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @functools.cached_property
    def changes(self) -> Changes:
        """What the statements of any module change when they run."""
        return Changes(self.naming.bindings, self.naming.plan.layers)

    @functools.cached_property
    def layers(self) -> frozenset[str]:
        """The names of the modular files: the one that is converted, and those that it extends."""
        return frozenset(layer.source.module for layer in self.naming.plan.layers)

    def index(self, module: str) -> ModuleIndex:
        """The blocks of `module`, a modular file or a module below the roots."""
        # The environment records once what is read, which is enough.
        if module not in self._indexes:
            self._indexes[module] = self._find_index(module)
        return self._indexes[module]

    def _find_index(self, module: str) -> ModuleIndex:
        """As `index`, for the first time."""
        for layer in self.naming.plan.layers:
            if layer.source.module == module:
                return layer
        return self.naming.bindings.env.index(module, Location(module))

    def block_ids(self, symbol: Symbol) -> tuple[BlockId, ...]:
        """The statements of its module that bind or change `symbol`, in order."""
        index = self.index(symbol.module)
        if symbol.module not in self._acting:
            self._acting[symbol.module] = self._find_acting(index)
        found = set(self._acting[symbol.module].get(symbol, ()))
        for block in index.blocks_that_bind(symbol.name):
            if block.is_for_types:
                # Type checkers alone read what it defines, unless a statement that runs does too.
                is_meant = block in index.binders(symbol.name)
            else:
                # An import is a block only where another statement binds its name too.
                is_import = block.kind == "import"
                is_meant = is_import and self.naming.bindings.is_contested(index, symbol.name)
            if is_meant:
                found.add(block.first)
        return tuple(BlockId(symbol.module, first) for first in sorted(found))

    def _find_acting(self, index: ModuleIndex) -> Mapping[Symbol, list[int]]:
        """The statements that bind or change each symbol by what they do when they run."""
        found: dict[Symbol, list[int]] = {}
        for block in index.blocks:
            if block.kind in ("doc", "import") or block.is_for_types:
                continue
            for symbol in self.changes.of(index, block).symbols:
                found.setdefault(symbol, []).append(block.first)
        return found

    def block(self, block_id: BlockId) -> FlatBlock:
        """The flat block of `block_id`.  Raises PatchgenError as qualifying and merging do."""
        if block_id not in self._made:
            self._made[block_id] = self._make_block(block_id)
        return self._made[block_id]

    def source_block(self, block_id: BlockId) -> Block:
        """The block of `block_id` as its file has it."""
        return self.index(block_id.module).by_first_line[block_id.first]

    def _make_block(self, block_id: BlockId) -> FlatBlock:
        """Make the block: merged where the plan declares a class, else carried."""
        index, block = self.index(block_id.module), self.source_block(block_id)
        # The plan has checked the modular files.
        if block_id.module not in self._checked | self.layers:
            self._checked.add(block_id.module)
            check_language(index, self.naming.bindings)
        key = Symbol(block_id.module, block.name or _name_statement(index, block))
        declaration = self.naming.plan.declaration(key)
        if declaration is not None:
            made = self._make_merged(block_id, declaration)
        else:
            made = self._make_copied(block_id, key, index, block)
        aside = self.naming.aside(key)
        # A parent whose name its subclass takes gets a private one.
        if aside is not None:
            made = _put_aside(made, aside)
        return made

    def _make_copied(
        self, block_id: BlockId, key: Symbol, index: ModuleIndex, block: Block
    ) -> FlatBlock:
        """A block that is carried with new names and no other change."""
        rewritten = qualify_names(index, block, key, self.naming)
        return FlatBlock(
            block_id=block_id,
            kind=block.kind,
            name=rewritten.name,
            leading=rewritten.leading,
            text=rewritten.text,
            dependencies=find_dependencies(rewritten.text, (rewritten,), self.naming.bindings),
            defines=rewritten.defines,
            rewritten=(rewritten,),
            notes=note_data_strings(rewritten.text, (rewritten,)),
        )

    def _make_merged(self, block_id: BlockId, declaration: Declaration) -> FlatBlock:
        """A class of a modular file, merged with its parents."""
        chain = declaration.chain
        rewritten_blocks = tuple(self._rewrite_class(symbol, chain) for symbol in chain)
        plan = ClassPlan(
            name=declaration.symbol.name,
            chain=rewritten_blocks,
            bases=self._spell_bases(declaration, rewritten_blocks),
            own_names=tuple(symbol.name for symbol in chain),
            beyond=self._make_beyond(declaration),
        )
        merged = self.merge(plan)
        text = quote_own_name(merged.text, plan.name)
        dependencies = find_dependencies(text, rewritten_blocks, self.naming.bindings)
        if any(dependency.eager and dependency.name == plan.name for dependency in dependencies):
            # Of parent and child with one name, the flat file has only the child.
            what = f"the body of {plan.name} reads a parent of that name while the class is made"
            hint = "bind what is needed of it to a name above the class"
            raise PatchgenError("PG124", rewritten_blocks[0].at(1, 0), what, hint)
        notes = (*merged.notes, *note_data_strings(text, rewritten_blocks))
        if declaration.why:
            kept = ", ".join(plan.bases)
            notes = (*notes, f"{plan.name} stays a subclass of {kept}: {declaration.why}")
        return FlatBlock(
            block_id=block_id,
            kind="class",
            name=plan.name,
            leading=_choose_leading(rewritten_blocks),
            text=text,
            dependencies=dependencies,
            defines=(plan.name,),
            rewritten=rewritten_blocks,
            notes=notes,
            parents=declaration.parents,
        )

    def _rewrite_class(self, symbol: Symbol, chain: tuple[Symbol, ...]) -> RewrittenBlock:
        """The text of one class of a chain, before it is merged."""
        index = self.index(symbol.module)
        block = index.definition(symbol.name)
        assert block is not None and block.kind == "class"
        return qualify_names(index, block, symbol, self.naming, chain)

    def _make_beyond(self, declaration: Declaration) -> Callable[[str, str], frozenset[str] | None]:
        """What `super()` can find behind the chain, for `ClassPlan.beyond`."""
        plan = self.naming.plan
        has_parents = len(declaration.chain) > 1

        def find_beyond(module: str, name: str) -> frozenset[str] | None:
            # A call in upstream code is not checked, nor is one in a class with nothing merged:
            # both do what Python does.
            is_ours = module in self.layers or module.startswith(f"{PARTS}.")
            if not has_parents or not is_ours:
                return None
            return outside(self.naming.bindings.env).lacking(declaration, plan, name)

        return find_beyond

    def _spell_bases(
        self, declaration: Declaration, rewritten_blocks: tuple[RewrittenBlock, ...]
    ) -> tuple[str, ...]:
        """The expressions of the bases that stay, as the rewritten blocks write them."""
        spelled: dict[Symbol, str] = {}
        for symbol, rewritten in zip(declaration.chain, rewritten_blocks, strict=True):
            written = parse_class(rewritten.text).bases
            known = bases_of(self.naming.bindings, self.index(symbol.module), symbol.name)
            for base, expression in zip(known, written, strict=True):
                spelled.setdefault(base.symbol, ast.unparse(expression))
        return tuple(spelled[symbol] for symbol in declaration.rest if symbol in spelled)


def _choose_leading(rewritten_blocks: tuple[RewrittenBlock, ...]) -> str:
    """What stands above a merged class: the first comment, from the modular file to the parents."""
    for rewritten in rewritten_blocks:
        if rewritten.leading.strip():
            return rewritten.leading
    # Without a comment, the blank lines of the last parent.
    return rewritten_blocks[-1].leading


def _put_aside(block: FlatBlock, name: str) -> FlatBlock:
    """Bind a class to `name`, because its subclass has taken its own name.

    The class statement keeps the name that it has in Python, which private names and registries
    read:

        class LlamaMLP(nn.Module): ...


        _LlamaMLPParent = LlamaMLP
    """
    text = f"{block.text.rstrip()}\n\n\n{name} = {block.name}\n"
    return replace(block, name=name, text=text, defines=(name,), aside=True)


def _name_statement(index: ModuleIndex, block: Block) -> str:
    """A name for a statement that binds nothing, such as `<other 2>`.

    A line number would change with every edit above the statement.
    """
    alike = [other for other in index.blocks if other.kind == block.kind and not other.defines]
    return f"<{block.kind} {alike.index(block) + 1}>"
