"""One block of a flat file: what it says, what it needs, and where it came from.

Built on demand from a *unit*, a block of some module.  A class of a modular file is merged with its chain here, by the
function that the caller hands in.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from patchgen.compiler.link.annotations import quote_own_name
from patchgen.compiler.link.equivalence import is_same_definition
from patchgen.compiler.link.future_annotations import with_strings
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.link.strings import staying_strings
from patchgen.compiler.plan.bindings import Bindings, is_kept
from patchgen.compiler.plan.changes import Changes
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.flatten_scope import PARTS
from patchgen.compiler.plan.lineage import Lineages, bases_of
from patchgen.compiler.plan.model import ClassPlan, MergedClass, RewrittenBlock, Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.compiler.plan.outside import outside
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.scopes import references

_PRIVATE = re.compile(r"\b__\w*[^\W_](?!\w)(?<!__)\b")
Merge = Callable[[ClassPlan], MergedClass]


@dataclass(frozen=True, slots=True, order=True)
class BlockId:
    """A block of a module, by the line on which it begins."""

    module: str
    first: int


@dataclass(frozen=True, slots=True)
class Dependency:
    """A global name that a block reads: what it means, to the code of which module, and whether when imported."""

    name: str
    symbol: Symbol
    home: str
    eager: bool


@dataclass(frozen=True, slots=True)
class FlatBlock:
    """A block in flat names.  `pieces` are the texts that it was made from, the modular file's first.

    `parents` are the classes that a class of a modular file derives from, also where it stays a subclass of them.
    `aside`: a parent that another class has taken the place of, and is a subclass of.
    """

    unit: BlockId
    kind: str
    name: str
    leading: str
    text: str
    needs: tuple[Dependency, ...]
    defines: tuple[str, ...]
    pieces: tuple[RewrittenBlock, ...]
    notes: tuple[str, ...] = ()
    parents: tuple[Symbol, ...] = ()
    aside: bool = False

    @property
    def origin(self) -> Symbol:
        """The class, function or statement of others that it stands for, or itself."""
        return self.parents[-1] if self.parents else self.pieces[-1].symbol


@dataclass(frozen=True)
class Builder:
    """Makes the flat blocks of one plan, each once.

    `spells`: annotations that `from __future__ import annotations` makes strings of are written as strings.
    """

    naming: Naming
    lineages: Lineages
    merge: Merge
    spells: bool = False
    _made: dict[BlockId, FlatBlock] = field(default_factory=dict, repr=False, compare=False)

    def index(self, module: str) -> ModuleIndex:
        """The blocks of `module`, a modular file or a module below the roots."""
        for layer in self.naming.plan.layers:
            if layer.source.module == module:
                return layer
        return self.naming.bindings.env.index(module, Location(module))

    def units(self, symbol: Symbol) -> tuple[BlockId, ...]:
        """The statements of its module that bind or change `symbol`, in order."""
        index = self.index(symbol.module)
        found = [block for block in index.blocks if self._concerns(index, block, symbol)]
        return tuple(BlockId(symbol.module, block.first) for block in found)

    def _concerns(self, index: ModuleIndex, block: Block, symbol: Symbol) -> bool:
        if block.kind == "doc" or block.is_for_types:
            return False
        if block.kind == "import":
            # An import of a name that something else binds too is carried in its place, as long as it may count.
            return symbol.name in block.defines and self.naming.bindings.is_contested(
                index, symbol.name
            )
        return symbol in self.changes.of(index, block).symbols

    @functools.cached_property
    def changes(self) -> Changes:
        """What the statements of any module change when they run."""
        return Changes(self.naming.bindings, self.naming.plan.layers)

    def block(self, unit: BlockId) -> FlatBlock:
        """The flat block of `unit`.

        Raises what localising and merging raise.
        """
        if unit not in self._made:
            self._made[unit] = self._make(unit)
        return self._made[unit]

    def source_block(self, unit: BlockId) -> Block:
        """The block of `unit` as its file has it."""
        return next(block for block in self.index(unit.module).blocks if block.first == unit.first)

    def _make(self, unit: BlockId) -> FlatBlock:
        index, block = self.index(unit.module), self.source_block(unit)
        key = Symbol(unit.module, block.name or _nameless(index, block))
        declaration = self.naming.plan.declaration(key)
        aside = self.naming.aside(key)
        made = (
            self._merged(unit, declaration)
            if declaration
            else self._localised(unit, key, index, block)
        )
        return made if aside is None else _put_aside(made, aside)

    def _localised(self, unit: BlockId, key: Symbol, index: ModuleIndex, block: Block) -> FlatBlock:
        piece = self._piece(index, block, key)
        if block.kind == "class" and piece.name != key.name and _PRIVATE.search(block.text):
            piece = replace(piece, text=self._with_private_names(piece))
        needs = _needs(
            piece.text, (piece,), block.lazy_annotations and not self.spells, self.naming.bindings
        )
        notes = staying_strings(piece.text, (piece,))
        return FlatBlock(
            unit,
            block.kind,
            piece.name,
            piece.leading,
            piece.text,
            needs,
            piece.defines,
            (piece,),
            notes,
        )

    def _piece(
        self, index: ModuleIndex, block: Block, key: Symbol, chain: tuple[Symbol, ...] = ()
    ) -> RewrittenBlock:
        piece = qualify_names(index, block, key, self.naming, chain)
        return with_strings(piece) if self.spells and block.lazy_annotations else piece

    def _with_private_names(self, piece: RewrittenBlock) -> str:
        """A renamed class whose `__names` keep the mangling of the old one."""
        node = next(n for n in ast.parse(piece.text).body if isinstance(n, ast.ClassDef))
        bases = tuple(ast.unparse(base) for base in node.bases)
        return self.merge(ClassPlan(piece.name, (piece,), bases, (piece.symbol.name,))).text

    def _merged(self, unit: BlockId, declaration: Declaration) -> FlatBlock:
        chain = declaration.chain
        pieces = tuple(
            self._piece(index, self._class_block(index, symbol), symbol, chain)
            for symbol in chain
            for index in [self.index(symbol.module)]
        )
        names = tuple(symbol.name for symbol in chain)
        bases = self._bases(declaration, pieces)
        plan = ClassPlan(declaration.symbol.name, pieces, bases, names, self._beyond(declaration))
        merged = self.merge(plan)
        leading = next((p.leading for p in pieces if p.leading.strip()), pieces[-1].leading)
        lazy = self.source_block(unit).lazy_annotations and not self.spells
        text = merged.text if lazy else quote_own_name(merged.text, plan.name)
        needs = _needs(text, pieces, lazy, self.naming.bindings)
        if any(need.eager and need.name == plan.name for need in needs):
            what = f"the body of {plan.name} reads a parent of that name while the class is made"
            raise PatchgenError(
                "PG124",
                pieces[0].at(1, 0),
                what,
                "bind what is needed of it to a name above the class",
            )
        notes = (*merged.notes, *staying_strings(text, pieces))
        if declaration.why:
            notes = (
                *notes,
                f"{plan.name} stays a subclass of {', '.join(bases)}: {declaration.why}",
            )
        return FlatBlock(
            unit,
            "class",
            plan.name,
            leading,
            text,
            needs,
            (plan.name,),
            pieces,
            notes,
            declaration.parents,
        )

    def _beyond(self, declaration: Declaration) -> Callable[[str, str], frozenset[str] | None]:
        """What `super()` can find behind the chain, for `ClassPlan.beyond`."""
        plan = self.naming.plan
        own = {layer.source.module for layer in plan.layers}

        def beyond(module: str, name: str) -> frozenset[str] | None:
            # What upstream asks for is upstream's affair; `super()` in a class with nothing merged is just Python.
            if len(declaration.chain) == 1 or not (module in own or module.startswith(f"{PARTS}.")):
                return None
            return outside(self.naming.bindings.env).lacking(declaration, plan, name)

        return beyond

    def _class_block(self, index: ModuleIndex, symbol: Symbol) -> Block:
        block = index.definition(symbol.name)
        assert block is not None and block.kind == "class"
        return block

    def _bases(
        self, declaration: Declaration, pieces: tuple[RewrittenBlock, ...]
    ) -> tuple[str, ...]:
        """The expressions of the bases that stay, as the pieces spell them."""
        spelled: dict[Symbol, str] = {}
        for symbol, piece in zip(declaration.chain, pieces, strict=True):
            node = next(n for n in ast.parse(piece.text).body if isinstance(n, ast.ClassDef))
            known = bases_of(self.naming.bindings, self.index(symbol.module), symbol.name)
            for base, written in zip(known, node.bases, strict=True):
                spelled.setdefault(base.symbol, ast.unparse(written))
        return tuple(spelled[symbol] for symbol in declaration.rest if symbol in spelled)


def _put_aside(block: FlatBlock, name: str) -> FlatBlock:
    """A class that is known as `name`, because its subclass has taken its own name.

    The class statement keeps the name that it has in Python, which private names and registries read:

        class LlamaMLP(nn.Module): ...


        _LlamaMLPParent = LlamaMLP
    """
    text = f"{block.text.rstrip()}\n\n\n{name} = {block.name}\n"
    return replace(block, name=name, text=text, defines=(name,), aside=True)


def _nameless(index: ModuleIndex, block: Block) -> str:
    """What a statement that binds nothing is called: line numbers would change with every edit above it."""
    alike = [other for other in index.blocks if other.kind == block.kind and not other.defines]
    return f"<{block.kind} {alike.index(block) + 1}>"


def _needs(
    text: str, pieces: tuple[RewrittenBlock, ...], lazy_annotations: bool, bindings: Bindings
) -> tuple[Dependency, ...]:
    """What the global names of `text` mean, by the pieces that it was made from.

    Raises PatchgenError PG401 when two pieces mean different things by one name.
    """
    meanings: dict[str, tuple[Symbol, RewrittenBlock]] = {}
    found: dict[str, Dependency] = {}
    for reference in references(ast.parse(text).body, lazy_annotations):
        for piece in pieces:
            symbol = piece.dependencies.get(reference.name)
            if symbol is None:
                continue
            known, first = meanings.setdefault(reference.name, (symbol, piece))
            if is_kept(symbol) and not is_kept(known):
                meanings[reference.name] = (symbol, piece)
            elif not is_kept(known) and not is_same_definition(known, symbol, bindings):
                what = f"{reference.name} means {known} in {first.source.path} and {symbol} in {piece.source.path}"
                raise PatchgenError(
                    "PG401", pieces[0].at(1, 0), what, _other_name(reference.name, pieces[0])
                )
        if reference.name in meanings:
            symbol, piece = meanings[reference.name]
            eager = reference.eager or (reference.name in found and found[reference.name].eager)
            found[reference.name] = Dependency(reference.name, symbol, piece.symbol.module, eager)
    return tuple(found.values())


def _other_name(name: str, own: RewrittenBlock) -> str:
    """What to do about a name that means two things: what the modular file, of which `own` is, can do."""
    imports = re.compile(rf"^\s*(?:from|import)\b.*\b{re.escape(name)}\b", re.MULTILINE)
    if imports.search(own.source.text):
        return f"import {name} under another name in {own.source.path}"
    return f"define {name} in {own.source.path}, where it counts for both, or give one of them another name"
