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
import re
from collections.abc import Iterator, Sequence

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.class_body import check_calls, is_of_known_package
from patchgen.compiler.plan.flatten_scope import Everywhere
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.bound import own_nodes
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import find_class, list_arguments, mentions, parse_once, sets_attributes

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
        yield from _find_later_changes(bodies, place)
    for index, symbol, block in bodies[1:]:
        node = _find_statement(block, symbol.name)
        yield from check_calls(index, block, node, lineages.bindings)
    for symbol in bases:
        yield from _check_base(symbol, lineages)


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


def _find_later_changes(
    bodies: Sequence[tuple[ModuleIndex, Symbol, Block]], place: int
) -> Iterator[str]:
    """Statements below the class of a parent, in its module, that may change it.

    class Base: ...
    Base.scale = 3              sets an attribute
    register(Base)              hands the class to a function
    """
    index, symbol, _ = bodies[place]
    replaces_parent = symbol.name == bodies[0][1].name
    # Any mention of the attribute by a child may depend on its value.
    nearer = "".join(block.text for _, _, block in bodies[:place])
    for block in index.blocks:
        if not _reads_when_imported(block, symbol.name):
            continue
        # Where the child has the parent's name, the statement is carried, and means the child.
        if replaces_parent and _changes_flat_class_alike(block, symbol.name, nearer):
            continue
        if _may_set(block) or _passes_on(block, symbol.name):
            line = block.text.strip().split("\n")[0]
            at = f"{index.source.path}:{block.first}"
            yield f"{at} may change {symbol.name} when it is imported: {line}"


def _reads_when_imported(block: Block, name: str) -> bool:
    """Whether a statement reads `name` when its module is imported."""
    # A function may change the class only when it is called, and these run nothing.
    if block.kind in ("class", "def", "import", "doc"):
        return False
    return any(reference.eager and reference.name == name for reference in block.references)


def _changes_flat_class_alike(block: Block, name: str, nearer: str) -> bool:
    """Whether the statement, carried into the flat file, changes the flat class in the same way.

    That is so where the nearer classes do not mention the attributes that it sets.
    """
    attribute = _read_attribute_set(block, name)
    if attribute is None:
        # It may hand the class to a function, which gets the flat class instead.
        return not _may_set(block)
    return re.search(rf"\b{attribute}\b", nearer) is None


def _read_attribute_set(block: Block, name: str) -> str | None:
    """The attribute that a statement `Base.x = v` sets; None where it is of another form."""
    match parse_once(block.text).body:
        case [ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner)) as target], value=value)]:
            # `Base.x = Base.y` takes its value from the parent.
            if owner != name or mentions(value, name):
                return None
            return target.attr
        case _:
            return None


def _may_set(block: Block) -> bool:
    """Whether a statement assigns or deletes an attribute."""
    return sets_attributes(parse_once(block.text))


def _passes_on(block: Block, name: str) -> bool:
    """Whether a statement hands the class to a function, or loops over it."""
    # What a loop binds to the class cannot be followed.
    if block.kind == "guard":
        return True
    calls = [node for node in ast.walk(parse_once(block.text)) if isinstance(node, ast.Call)]
    for call in calls:
        if any(mentions(argument, name) for argument in list_arguments(call)):
            return True
    return False


def _check_base(symbol: Symbol, lineages: Lineages) -> Iterator[str]:
    """A base that stays and is notified of subclasses, by a metaclass or `__init_subclass__`."""
    # The bases that stay are not flattened, so all files have to be read.
    everywhere = Lineages(Bindings(lineages.bindings.env, Everywhere("")))
    nowhere = Location("")
    try:
        line = everywhere.mro(everywhere.bindings.canonical(symbol, nowhere), nowhere)
        for base in line:
            # Their hooks work alike for a merged class.
            if is_of_known_package(base) or base.module == "builtins":
                continue
            if lineages.bindings.env.path(base.module) is None:
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
