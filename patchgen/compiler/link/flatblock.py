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

from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.link.strings import quote_own_name
from patchgen.compiler.plan.bindings import PARTS, Bindings, is_kept
from patchgen.compiler.plan.declare import Declaration, ModulePlan, find_index
from patchgen.compiler.plan.gate import check_language
from patchgen.compiler.plan.lineage import Lineages, bases_of
from patchgen.compiler.plan.model import ClassPlan, MergedClass, RewrittenBlock, Symbol
from patchgen.compiler.plan.naming import NameClash, Naming
from patchgen.compiler.plan.outside import outside
from patchgen.compiler.plan.same import is_same_definition
from patchgen.syntax.blocks import Block, ModuleIndex, references_in
from patchgen.syntax.errors import Location
from patchgen.syntax.kept import per_object
from patchgen.syntax.statements import changed_names
from patchgen.syntax.trees import parse_class

Merge = Callable[[ClassPlan], MergedClass]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A global name that a block reads.

    `symbol` is what the name stands for in the module `home`.  `eager`: it is read when the block
    runs, and not only when a function of it is called.
    """

    name: str
    symbol: Symbol
    home: str
    eager: bool


def find_dependencies(
    text: str, rewritten_blocks: tuple[RewrittenBlock, ...], naming: Naming
) -> tuple[Dependency, ...]:
    """What the global names of `text` stand for; raises PG401 where two of its blocks disagree."""
    dependencies: dict[str, Dependency] = {}
    for reference in references_in(text):
        name = reference.name
        known = dependencies.get(name) or _find_meaning(name, rewritten_blocks, naming)
        # None for a builtin; of many reads, one eager one is enough.
        if known is not None:
            dependencies[name] = replace(known, eager=known.eager or reference.eager)
    return tuple(dependencies.values())


def _find_meaning(
    name: str, rewritten_blocks: tuple[RewrittenBlock, ...], naming: Naming
) -> Dependency | None:
    """What `name` stands for in the first block that reads it; the others have to agree."""
    reading = [rewritten for rewritten in rewritten_blocks if name in rewritten.dependencies]
    if not reading:
        return None
    chosen = reading[0]
    for rewritten in reading[1:]:
        known = chosen.dependencies[name]
        symbol = rewritten.dependencies[name]
        # An import that the user wrote to be kept wins.
        if is_kept(known):
            break
        if is_kept(symbol):
            chosen = rewritten
        elif not is_same_definition(known, symbol, naming):
            paths = chosen.source.path, rewritten.source.path
            what = f"{name} means {known} in {paths[0]} and {symbol} in {paths[1]}"
            hint = f"define {name} in {rewritten_blocks[0].source.path}, where it counts for both, "
            hint += "or give one of them another name there"
            raise NameClash(naming.lesser(known, symbol), rewritten_blocks[0].at(1, 0), what, hint)
    return Dependency(name, chosen.dependencies[name], chosen.symbol.module, eager=False)


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
    def reads(self) -> list[str]:
        """The global names that it reads."""
        return [dependency.name for dependency in self.dependencies]

    @property
    def changes(self) -> frozenset[str]:
        """The names whose objects the block changes at import."""
        return changed_names(self.text)

    @property
    def symbol(self) -> Symbol:
        """What it defines, in the nearest of its files."""
        return self.rewritten[0].symbol

    @property
    def place(self) -> Location:
        """Where it begins in the nearest of its files."""
        return self.rewritten[0].at(1, 0)

    @property
    def origin(self) -> Symbol:
        """The upstream definition that the block stands for, or its own."""
        return self.parents[-1] if self.parents else self.rewritten[-1].symbol


def list_bases(block: FlatBlock, counts: Callable[[Dependency], bool]) -> list[Symbol]:
    """The bases that a class names, of those dependencies for which `counts` holds."""
    symbols = {each.name: each.symbol for each in block.dependencies if counts(each)}
    # Parsing takes longer than the look at the names.
    if block.kind != "class" or not symbols:
        return []
    written = map(ast.unparse, parse_class(block.text).bases)
    return [symbols[base] for base in written if base in symbols]


@dataclass(frozen=True)
class Builder:
    """Makes the flat blocks of one plan, each once."""

    naming: Naming
    lineages: Lineages
    merge: Merge
    _made: dict[BlockId, FlatBlock] = field(default_factory=dict, init=False, repr=False)

    @property
    def plan(self) -> ModulePlan:
        return self.naming.plan

    @property
    def bindings(self) -> Bindings:
        return self.naming.bindings

    def keep_subclasses(self, kept: Mapping[Symbol, str]) -> Builder:
        """A builder that does not merge the classes `kept`, each for its reason."""
        plan = self.plan.keep_subclasses(kept)
        return replace(self, naming=replace(self.naming, plan=plan))

    def set_apart(self, symbols: frozenset[Symbol]) -> Builder:
        """A builder that gives the definitions `symbols` names with those of their models."""
        return replace(self, naming=replace(self.naming, apart=self.naming.apart | symbols))

    def lend_to(self, plain: Builder) -> None:
        """Give `plain`, which declares nothing, the blocks that are here as their files have them.

        What a block reads may be another definition here, under the same name.
        """
        for block_id, made in {} if self.naming.apart else self._made.items():
            source = self.source_block(block_id)
            homes = {block_id.module, *(each.symbol.module for each in made.dependencies)}
            is_same = (made.text, made.leading) == (source.text, source.leading)
            if is_same and homes.isdisjoint(self.layers):
                plain._made[block_id] = made

    @property
    def declares(self) -> bool:
        """Whether the plan changes anything; the one of a diff base does not."""
        return bool(self.plan.modular.blocks)

    @functools.cached_property
    def layers(self) -> frozenset[str]:
        """The names of the modular files: the one that is converted, and those that it extends."""
        return frozenset(self.plan.modules)

    @per_object  # The environment records once what is read, which is enough.
    def index(self, module: str) -> ModuleIndex:
        """The blocks of `module`, a modular file or a module below the roots."""
        return find_index(module, self.plan.layers, self.bindings)

    def block_ids(self, symbol: Symbol) -> tuple[BlockId, ...]:
        """The statements of its module that bind or change `symbol`, in order."""
        name = symbol.name
        index = self.index(symbol.module)
        bindings = self.bindings
        firsts = {block.first for block in index.blocks if name in changed_names(block.text)}
        for block in index.blocks_that_bind(name):
            # An import is a block only where another statement binds its name too.
            is_meant = block.kind != "import" or bindings.is_contested(index, name)
            if block.is_for_types:
                # Type checkers alone read what it defines, unless a statement that runs does too.
                is_meant = block in index.binders(name)
            if is_meant:
                firsts.add(block.first)
        return tuple(BlockId(symbol.module, first) for first in sorted(firsts))

    def position(self, block_id: BlockId) -> tuple[int, str, int]:
        """Where a statement stands in the order in which Python would run them.

        Modules by name, then the modular files: what a file extends was defined before it.
        """
        return (-self.plan.layer(block_id.module), block_id.module, block_id.first)

    def block(self, block_id: BlockId) -> FlatBlock:
        """The flat block of `block_id`: merged where the plan declares a class, else carried."""
        if block_id not in self._made:
            index = self.index(block_id.module)
            block = self.source_block(block_id)
            check_language(index, self.bindings)
            # What binds nothing is called `<other 2>`, as line numbers change easily.
            key = Symbol(block_id.module, block.name or f"<{block.kind} {index.count_to(block)}>")
            declaration = self.plan.declaration(key)
            if declaration is not None:
                made = self._make_merged(block_id, declaration)
            else:
                made = self._make_copied(block_id, qualify_names(index, block, key, self.naming))
            if key in self.naming.apart:
                note = f"{made.name} is {key}: something else has its name"
                made = replace(made, notes=(*made.notes, note))
            # A parent whose name its subclass takes has a private one.
            self._made[block_id] = replace(made, aside=self.naming.aside(key) is not None)
        return self._made[block_id]

    def source_block(self, block_id: BlockId) -> Block:
        """The block of `block_id` as its file has it."""
        return self.index(block_id.module).by_first_line[block_id.first]

    def _make_copied(self, block_id: BlockId, rewritten: RewrittenBlock) -> FlatBlock:
        return FlatBlock(
            block_id=block_id,
            kind=rewritten.kind,
            name=rewritten.name,
            leading=rewritten.leading,
            text=rewritten.text,
            dependencies=find_dependencies(rewritten.text, (rewritten,), self.naming),
            defines=rewritten.defines,
            rewritten=(rewritten,),
        )

    def _make_merged(self, block_id: BlockId, declaration: Declaration) -> FlatBlock:
        chain = declaration.chain
        rewritten_blocks = tuple(self._rewrite_class(symbol, chain) for symbol in chain)
        bases = self._spell_bases(declaration, rewritten_blocks)
        plan = ClassPlan(
            name=self.naming.aside(declaration.symbol) or declaration.symbol.name,
            chain=rewritten_blocks,
            bases=tuple(bases.values()),
            own_names=tuple(symbol.name for symbol in chain),
            searches=tuple(self._find_search(symbol, declaration, bases) for symbol in chain),
            beyond=functools.partial(self._find_beyond, declaration),
        )
        merged = self.merge(plan)
        text = quote_own_name(merged.text, plan.name)
        notes = merged.notes
        if declaration.why:
            kept = ", ".join(plan.bases)
            notes += (f"{plan.name} stays a subclass of {kept}: {declaration.why}",)
        # What stands above: the first comment, else the blank lines of the last parent.
        comments = [
            rewritten.leading for rewritten in rewritten_blocks if rewritten.leading.strip()
        ]
        return FlatBlock(
            block_id=block_id,
            kind="class",
            name=plan.name,
            leading=[*comments, rewritten_blocks[-1].leading][0],
            text=text,
            dependencies=find_dependencies(text, rewritten_blocks, self.naming),
            defines=(plan.name,),
            rewritten=rewritten_blocks,
            notes=notes,
            parents=declaration.parents,
        )

    def _rewrite_class(self, symbol: Symbol, chain: tuple[Symbol, ...]) -> RewrittenBlock:
        index = self.index(symbol.module)
        block = index.definition(symbol.name)
        assert block is not None
        return qualify_names(index, block, symbol, self.naming, chain)

    def _find_beyond(
        self, declaration: Declaration, module: str, name: str
    ) -> frozenset[str] | None:
        """What `super()` can find behind the chain, for `ClassPlan.beyond`."""
        # A call in upstream code is not checked, nor is one in a class with nothing merged: both do
        # what Python does.
        is_ours = module in self.layers or module.startswith(f"{PARTS}.")
        if len(declaration.chain) == 1 or not is_ours:
            return None
        outer = outside(self.bindings.env)
        return outer.lacking(declaration, self.plan, name)

    def _spell_bases(
        self, declaration: Declaration, rewritten_blocks: tuple[RewrittenBlock, ...]
    ) -> dict[Symbol, str]:
        """The expressions of the bases that stay, as the rewritten blocks write them."""
        spelled: dict[Symbol, str] = {}
        pairs = zip(declaration.chain, rewritten_blocks, strict=True)
        for symbol, rewritten in pairs:
            index = self.index(symbol.module)
            bases = bases_of(self.bindings, index, symbol.name)
            written = map(ast.unparse, parse_class(rewritten.text).bases)
            for base, expression in zip(bases, written, strict=True):
                spelled.setdefault(base.symbol, expression)
        return {symbol: spelled[symbol] for symbol in declaration.rest if symbol in spelled}

    def _find_search(
        self, symbol: Symbol, declaration: Declaration, bases: Mapping[Symbol, str]
    ) -> tuple[tuple[int, ...], str | None]:
        """Where Python looks for what the class `symbol` of a chain has."""
        chain = declaration.chain
        at = declaration.at
        mro = self.lineages.mro(symbol, at)
        inside = tuple(chain.index(ancestor) for ancestor in mro if ancestor in chain)
        behind = mro[len(inside) :]
        if not behind:
            return inside, "object"
        following = behind[0]
        # One base goes on for several only if it has all of them behind it.
        is_whole = self.lineages.mro(following, at) == behind
        return inside, bases.get(following) if is_whole else None
