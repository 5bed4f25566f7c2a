"""Why a class stays a subclass of its parents, as far as their own files say.

In: a class of a modular file and the classes that could be merged into it.  Out: a reason, or "" where merging them
can be noticed by nothing that these files say.  What the flat file says besides is looked at when it is there
(`patchgen.compiler.link.identity`), and what one body cannot hold is found where it is made (`patchgen.compiler.merge`).

    class Kinds(Enum): ...        # the attributes of a mixin would become members
    class Base: ...
    Base.scale = 3                # would be lost, or undo what the child says of `scale`
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.flatten_scope import Everywhere
from patchgen.compiler.plan.intent import MODULE as EDITS
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.scopes import Reference, own_nodes

Class = tuple[ModuleIndex, Symbol]

# Bases and annotations of classes that look at one class body, and make something else of it than a class.
_TYPING = frozenset({"Generic", "NamedTuple", "Protocol", "TypedDict"})
_HARMLESS_METACLASSES = frozenset({"ABCMeta", "abc.ABCMeta", "type"})
# What a class body may call: none of it can tell in which class, or in which order, it is called.
_KNOWN = frozenset(
    {"accelerate", "huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers"}
)
_ACCESSORS = frozenset({"getter", "setter", "deleter"})
_LOOKS_AROUND = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})


def find_reason(chain: Sequence[Class], lineages: Lineages, at: Location) -> str:
    """Why the first class of `chain` stays a subclass of the others, or ""."""
    symbols = [symbol for _, symbol in chain]
    bases = [symbol for symbol in lineages.mro(symbols[0], at) if symbol not in symbols]
    bodies = [(index, symbol, _block(index, symbol)) for index, symbol in chain]
    found = [
        *_special(bases),
        *(why for index, symbol, block in bodies for why in _of_its_head(symbol, block)),
        *(why for index, symbol, block in bodies for why in _looks_around(symbol, block)),
        *(why for place in range(1, len(bodies)) for why in _changed_later(bodies, place)),
        *(
            why
            for index, symbol, block in bodies[1:]
            for why in _calls(index, symbol, block, lineages.bindings)
        ),
        *(why for symbol in bases for why in _watches(symbol, lineages)),
    ]
    return found[0] if found else ""


def _block(index: ModuleIndex, symbol: Symbol) -> Block:
    block = index.definition(symbol.name)
    assert block is not None
    return block


def _statement(block: Block, name: str) -> ast.ClassDef:
    return next(
        n for n in ast.parse(block.text).body if isinstance(n, ast.ClassDef) and n.name == name
    )


def _special(bases: Sequence[Symbol]) -> Iterator[str]:
    for base in bases:
        if base.module in ("typing", "typing_extensions") and base.name in _TYPING:
            yield f"{base} makes something of each class body that it is a base of"
        if base.module == "enum":
            yield f"{base} makes members of the attributes of a class body"


def _of_its_head(symbol: Symbol, block: Block) -> Iterator[str]:
    """A class line that says more than names of bases."""
    node = _statement(block, symbol.name)
    for base in node.bases:
        if isinstance(base, ast.Subscript):
            yield f"{symbol.name} has the base {ast.unparse(base)}, whose arguments a merged class would not have"
    for keyword in node.keywords:
        value = ast.unparse(keyword.value)
        if keyword.arg is None or (
            keyword.arg == "metaclass" and value not in _HARMLESS_METACLASSES
        ):
            yield f"{symbol.name} is made with {keyword.arg or '**'}={value}, which sees each class body"


def _looks_around(symbol: Symbol, block: Block) -> Iterator[str]:
    for reference in block.references:
        if reference.eager and reference.name in _LOOKS_AROUND:
            yield f"the body of {symbol.name} calls {reference.name}(), which sees what else the body has"
    node = _statement(block, symbol.name)
    if any(isinstance(n, ast.Name) and n.id == "__doc__" for n in own_nodes(node.body)):
        yield f"the body of {symbol.name} reads its docstring, of which a merged class has one"


def _changed_later(
    bodies: Sequence[tuple[ModuleIndex, Symbol, Block]], place: int
) -> Iterator[str]:
    """Statements of the module of a parent, below the class, that may change it."""
    index, symbol, _ = bodies[place]
    takes_its_place = symbol.name == bodies[0][1].name
    nearer = "".join(block.text for _, _, block in bodies[:place])
    for block in index.blocks:
        if block.kind in ("class", "def", "import", "doc"):
            continue
        if not any(r.eager and r.name == symbol.name for r in block.references):
            continue
        adds = _attributes_added(block, symbol.name)
        if takes_its_place and not any(re.search(rf"\b{name}\b", nearer) for name in adds or ()):
            if adds is not None or not _may_set(block):
                continue  # the flat class is changed in the same way
        if _may_set(block) or _passes_on(block, symbol.name):
            line = block.text.strip().split("\n")[0]
            yield f"{index.source.path}:{block.first} may change {symbol.name} when it is imported: {line}"


def _attributes_added(block: Block, name: str) -> list[str] | None:
    """The attributes that a statement `Base.x = v` sets; None where it is of another form."""
    match ast.parse(block.text).body:
        case [
            ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=owner), attr=attribute)], value=value
            )
        ]:
            reads = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))
            return [attribute] if owner == name and not reads else None
        case _:
            return None


def _may_set(block: Block) -> bool:
    """Whether a statement assigns or deletes an attribute."""
    for node in ast.walk(ast.parse(block.text)):
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Call(func=ast.Name(id="setattr" | "delattr"))
            ):
                return True
            case _:
                pass
    return False


def _passes_on(block: Block, name: str) -> bool:
    """Whether a statement hands the class to a function, or loops over it."""
    if block.kind == "guard":
        return True
    calls = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Call)]
    passed = [
        argument for call in calls for argument in (*call.args, *(k.value for k in call.keywords))
    ]
    return any(
        isinstance(node, ast.Name) and node.id == name for each in passed for node in ast.walk(each)
    )


def _calls(index: ModuleIndex, symbol: Symbol, block: Block, bindings: Bindings) -> Iterator[str]:
    """What the class body of a parent calls when it is made; a merged body calls it in another order, or never."""
    node = _statement(block, symbol.name)
    called, read = _called_in(node), _read_in(node)
    for reference in block.references:
        place = (reference.line, reference.column)
        if place in called and not _is_known(index, reference, bindings):
            yield f"the body of {symbol.name} calls {_spelled(reference)} when the class is made"
        elif place in read and _is_told_its_name(index, reference, bindings):
            yield f"the body of {symbol.name} holds {reference.name}, which is told its class and its name"
    outside = {(reference.line, reference.column) for reference in block.references}
    for name, callee in _called_by_name(node):
        if (name.lineno, name.col_offset) not in outside:
            yield f"the body of {symbol.name} calls {ast.unparse(callee)} of its own when the class is made"


def _called_in(node: ast.ClassDef) -> set[tuple[int, int]]:
    """The places of the names by which calls in the class body, and decorators of its members, begin."""
    return {(name.lineno, name.col_offset) for name in map(first_name, _callees(node))}


def _callees(node: ast.ClassDef) -> list[ast.expr]:
    found = [n.func for n in _at_import(node) if isinstance(n, ast.Call)]
    return found + [d for n in node.body for d in getattr(n, "decorator_list", [])]


def _called_by_name(node: ast.ClassDef) -> Iterator[tuple[ast.Name, ast.expr]]:
    """What is called in the class body, with the name that it begins with; `@x.setter` of a property is plain."""
    for callee in _callees(node):
        name = first_name(callee)
        is_accessor = isinstance(callee, ast.Attribute) and callee.attr in _ACCESSORS
        if isinstance(name, ast.Name) and not is_accessor:
            yield name, callee


def _read_in(node: ast.ClassDef) -> set[tuple[int, int]]:
    return {(n.lineno, n.col_offset) for n in _at_import(node) if isinstance(n, ast.Name)}


def _at_import(owner: ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a class body that run when the class is made, annotations left out."""
    stack: list[ast.AST] = list(owner.body)
    while stack:
        node = stack.pop()
        yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                stack += [
                    *node.decorator_list,
                    *node.args.defaults,
                    *(d for d in node.args.kw_defaults if d),
                ]
            case ast.Lambda():
                stack += [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
            case ast.AnnAssign():
                stack += [node.value] if node.value else []
            case _:
                stack += ast.iter_child_nodes(node)


def first_name(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _spelled(reference: Reference) -> str:
    return ".".join([reference.name, *reference.attributes])


def meaning(
    index: ModuleIndex, reference: Reference, bindings: Bindings
) -> tuple[Symbol | None, int]:
    """What the read name stands for, and how many of the attributes behind it that takes."""
    symbol, used = bindings.meaning(index, reference.name), 0
    while symbol is not None and not symbol.name and used < len(reference.attributes):
        symbol = bindings.canonical(Symbol(symbol.module, reference.attributes[used]), Location(""))
        used += 1
    return symbol, used


def _is_known(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether nobody can tell when, and where, the function is called."""
    symbol, _ = meaning(index, reference, bindings)
    if symbol is None:
        return True  # a builtin
    if str(symbol).startswith(EDITS):
        return True  # not there any more when the class is made
    return not bindings.flatten_scope.flattens(symbol.module) and _is_of_a_known_package(symbol)


def _is_of_a_known_package(symbol: Symbol) -> bool:
    top = symbol.module.partition(".")[0]
    return top in _KNOWN or top in sys.stdlib_module_names


def _is_told_its_name(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether the file of what a name means writes `__set_name__`."""
    symbol, _ = meaning(index, reference, bindings)
    if (
        symbol is None
        or _is_of_a_known_package(symbol)
        and not bindings.flatten_scope.flattens(symbol.module)
    ):
        return False
    if symbol.module != index.source.module and bindings.env.path(symbol.module) is None:
        return False
    home = (
        index
        if symbol.module == index.source.module
        else bindings.env.index(symbol.module, Location(""))
    )
    return "__set_name__" in home.source.text


def _watches(symbol: Symbol, lineages: Lineages) -> Iterator[str]:
    """A base that stays and sees every class below it, by a metaclass or by `__init_subclass__`."""
    everywhere = Lineages(Bindings(lineages.bindings.env, Everywhere("")))
    nowhere = Location("")
    try:
        line = everywhere.mro(everywhere.bindings.canonical(symbol, nowhere), nowhere)
        for base in line:
            if _is_of_a_known_package(base) or base.module == "builtins":
                continue
            if lineages.bindings.env.path(base.module) is None:
                yield f"of the base {base} nothing is known"
                return
            block = everywhere.bindings.require(base, nowhere)
            if (
                block.kind != "class"
                or "__init_subclass__" in block.text
                or "metaclass" in block.text
            ):
                yield f"the base {base} sees every class that derives from it"
    except PatchgenError:
        yield f"of the base {symbol} nothing is known"
