"""Find why a class stays a subclass of its parents, as far as their own files tell.

In: a class of a modular file and the classes that could be merged into it.  Out: a reason, or ""
where no code of these files can notice the merge.  `patchgen.compiler.link.identity` looks at the
flat file later, and `patchgen.compiler.merge` refuses what one class body cannot hold.

    class Kinds(Enum): ...        # the attributes of a mixin would become members
    class Base: ...
    Base.scale = 3                # would be lost, or override what the child sets
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.class_body import check_calls, is_of_known_package
from patchgen.compiler.plan.flatten_scope import Everywhere
from patchgen.compiler.plan.later_changes import find_later_changes, find_later_reads
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.bound import own_nodes
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import find_class

Class = tuple[ModuleIndex, Symbol]

# Bases that make something else of a class body than an ordinary class.
_TYPING = frozenset({"Generic", "NamedTuple", "Protocol", "TypedDict"})
_HARMLESS_METACLASSES = frozenset({"ABCMeta", "abc.ABCMeta", "type"})
# They see all names of the body, so that they notice what was merged into it.
_LOOKS_AROUND = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})


def find_reason(chain: Sequence[Class], lineages: Lineages, at: Location) -> str:
    """Why the first class of `chain` stays a subclass of the others, or ""."""
    # All of them, so that each run reads the same files: the lock records what was read.
    found = list(_find_reasons(chain, lineages, at))
    return found[0] if found else ""


def _find_reasons(chain: Sequence[Class], lineages: Lineages, at: Location) -> Iterator[str]:
    """Every reason, the most general first: the first one is what a person reads."""
    symbols = [symbol for _, symbol in chain]
    bases = [symbol for symbol in lineages.mro(symbols[0], at) if symbol not in symbols]
    bodies = [(index, symbol, _find_block(index, symbol)) for index, symbol in chain]
    yield from _find_special_bases(bases)
    for _, symbol, block in bodies:
        yield from _check_head(symbol, block)
    for _, symbol, block in bodies:
        yield from _check_inspection(symbol, block)
    # The declared class itself may be changed below: its statements are carried as they are.
    for place in range(1, len(bodies)):
        yield from find_later_changes(bodies, place)
        yield from find_later_reads(bodies, place)
    for index, symbol, block in bodies[1:]:
        node = _find_statement(block, symbol.name)
        yield from check_calls(index, block, node, lineages.bindings)
    # The bases that stay are not flattened, so all files have to be read.
    everywhere = Lineages(Bindings(lineages.bindings.env, Everywhere("")))
    for symbol in bases:
        yield from _check_base(symbol, everywhere)


def _find_block(index: ModuleIndex, symbol: Symbol) -> Block:
    block = index.definition(symbol.name)
    assert block is not None
    return block


def _find_statement(block: Block, name: str) -> ast.ClassDef:
    node = find_class(block.text, name)
    assert node is not None
    return node


def _find_special_bases(bases: Sequence[Symbol]) -> Iterator[str]:
    """Bases that read the attributes or the annotations of a class body."""
    for base in bases:
        if base.module in ("typing", "typing_extensions") and base.name in _TYPING:
            yield f"{base} makes something of each class body that it is a base of"
        # An enum makes members of all attributes, also of merged ones.
        if base.module == "enum":
            yield f"{base} makes members of the attributes of a class body"


def _check_head(symbol: Symbol, block: Block) -> Iterator[str]:
    """A class line that says more than names of bases."""
    node = _find_statement(block, symbol.name)
    for base in node.bases:
        if isinstance(base, ast.Subscript):
            written = ast.unparse(base)
            has_base = f"{symbol.name} has the base {written}"
            yield f"{has_base}, whose arguments a merged class would not have"
    for keyword in node.keywords:
        if _is_seen_by_metaclass(keyword):
            made_with = f"{keyword.arg or '**'}={ast.unparse(keyword.value)}"
            yield f"{symbol.name} is made with {made_with}, which sees each class body"


def _is_seen_by_metaclass(keyword: ast.keyword) -> bool:
    """Whether a keyword of the class line brings in a metaclass that may look at the body.

    Other keywords go to the hook of a base, of which `_check_base` knows.
    """
    if keyword.arg == "metaclass":
        return ast.unparse(keyword.value) not in _HARMLESS_METACLASSES
    # `class A(Base, **options)` may hold one.
    return keyword.arg is None


def _check_inspection(symbol: Symbol, block: Block) -> Iterator[str]:
    """A class body that reads what is bound around it, or its docstring."""
    for reference in block.references:
        if reference.eager and reference.name in _LOOKS_AROUND:
            call = f"{reference.name}()"
            yield f"the body of {symbol.name} calls {call}, which sees what else the body has"
    body = _find_statement(block, symbol.name).body
    names = [node.id for node in own_nodes(body) if isinstance(node, ast.Name)]
    if "__doc__" in names:
        yield f"the body of {symbol.name} reads its docstring, of which a merged class has one"


def _check_base(symbol: Symbol, everywhere: Lineages) -> Iterator[str]:
    """A base that stays and is notified of subclasses, by a metaclass or `__init_subclass__`."""
    nowhere = Location("")
    try:
        line = everywhere.mro(everywhere.bindings.canonical(symbol, nowhere), nowhere)
        for base in line:
            # Their hooks work alike for a merged class.
            if is_of_known_package(base) or base.module == "builtins":
                continue
            if everywhere.bindings.env.path(base.module) is None:
                yield f"of the base {base} nothing is known"
                return
            block = everywhere.bindings.require(base, nowhere)
            if _may_have_hook(block):
                yield f"the base {base} sees every class that derives from it"
    # A file that cannot be read may hold a hook.
    except PatchgenError:
        yield f"of the base {symbol} nothing is known"


def _may_have_hook(base: Block) -> bool:
    """Whether a base may run code when a class derives from it."""
    # `Base = make_base()` may give any class.
    if base.kind != "class":
        return True
    # A text search: a hook that is inherited from here on is found at its own class.
    return "__init_subclass__" in base.text or "metaclass" in base.text
