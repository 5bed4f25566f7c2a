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

# Bases that make something else of a class body than an ordinary class.
_TYPING = frozenset({"Generic", "NamedTuple", "Protocol", "TypedDict"})
_HARMLESS_METACLASSES = frozenset({"ABCMeta", "abc.ABCMeta", "type"})
# What a class body may call: none of it can tell in which class, or in which order, it is called.
_KNOWN = frozenset(
    {"accelerate", "huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers"}
)
# `@size.setter` only adds a function to a property.
_ACCESSORS = frozenset({"getter", "setter", "deleter"})
_LOOKS_AROUND = frozenset({"dir", "eval", "exec", "globals", "locals", "vars"})


def find_reason(chain: Sequence[Class], lineages: Lineages, at: Location) -> str:
    """Why the first class of `chain` stays a subclass of the others, or ""."""
    # All of them, so that each run reads the same files: the lock records what was read.
    found = list(_find_reasons(chain, lineages, at))
    return found[0] if found else ""


def _find_reasons(chain: Sequence[Class], lineages: Lineages, at: Location) -> Iterator[str]:
    symbols = [symbol for _, symbol in chain]
    bases = [symbol for symbol in lineages.mro(symbols[0], at) if symbol not in symbols]
    bodies = [(index, symbol, _find_block(index, symbol)) for index, symbol in chain]
    yield from _find_special_bases(bases)
    for _, symbol, block in bodies:
        yield from _check_head(symbol, block)
    for _, symbol, block in bodies:
        yield from _check_inspection(symbol, block)
    for place in range(1, len(bodies)):
        yield from _find_later_changes(bodies, place)
    for index, symbol, block in bodies[1:]:
        yield from _check_calls(index, symbol, block, lineages.bindings)
    for symbol in bases:
        yield from _check_base(symbol, lineages)


def _find_block(index: ModuleIndex, symbol: Symbol) -> Block:
    block = index.definition(symbol.name)
    assert block is not None
    return block


def _find_statement(block: Block, name: str) -> ast.ClassDef:
    for node in ast.parse(block.text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise AssertionError(f"the block of class {name} does not hold it")


def _find_special_bases(bases: Sequence[Symbol]) -> Iterator[str]:
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
        value = ast.unparse(keyword.value)
        if keyword.arg == "metaclass" and value in _HARMLESS_METACLASSES:
            continue
        if keyword.arg is None or keyword.arg == "metaclass":
            made_with = f"{keyword.arg or '**'}={value}"
            yield f"{symbol.name} is made with {made_with}, which sees each class body"


def _check_inspection(symbol: Symbol, block: Block) -> Iterator[str]:
    """A class body that reads what is bound around it, or its docstring."""
    for reference in block.references:
        if reference.eager and reference.name in _LOOKS_AROUND:
            call = f"{reference.name}()"
            yield f"the body of {symbol.name} calls {call}, which sees what else the body has"
    for node in own_nodes(_find_statement(block, symbol.name).body):
        if isinstance(node, ast.Name) and node.id == "__doc__":
            yield f"the body of {symbol.name} reads its docstring, of which a merged class has one"


def _find_later_changes(
    bodies: Sequence[tuple[ModuleIndex, Symbol, Block]], place: int
) -> Iterator[str]:
    """Statements below the class of a parent, in its module, that may change it."""
    index, symbol, _ = bodies[place]
    replaces_parent = symbol.name == bodies[0][1].name
    # Any mention of the attribute by a child may depend on its value.
    nearer = "".join(block.text for _, _, block in bodies[:place])
    for block in index.blocks:
        if block.kind in ("class", "def", "import", "doc"):
            continue
        if not any(r.eager and r.name == symbol.name for r in block.references):
            continue
        if replaces_parent and _changes_flat_class_alike(block, symbol.name, nearer):
            continue
        if _may_set(block) or _passes_on(block, symbol.name):
            line = block.text.strip().split("\n")[0]
            at = f"{index.source.path}:{block.first}"
            yield f"{at} may change {symbol.name} when it is imported: {line}"


def _changes_flat_class_alike(block: Block, name: str, nearer: str) -> bool:
    """Whether the statement, carried into the flat file, changes the flat class in the same way.

    That is so where the nearer classes do not mention the attributes that it sets.
    """
    attributes = _read_attributes_set(block, name)
    if any(re.search(rf"\b{attribute}\b", nearer) for attribute in attributes or ()):
        return False
    return attributes is not None or not _may_set(block)


def _read_attributes_set(block: Block, name: str) -> list[str] | None:
    """The attributes that a statement `Base.x = v` sets; None where it is of another form."""
    match ast.parse(block.text).body:
        case [ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner)) as target], value=value)]:
            reads = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))
            return [target.attr] if owner == name and not reads else None
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
    for call in ast.walk(ast.parse(block.text)):
        if not isinstance(call, ast.Call):
            continue
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            for node in ast.walk(argument):
                if isinstance(node, ast.Name) and node.id == name:
                    return True
    return False


def _check_calls(
    index: ModuleIndex, symbol: Symbol, block: Block, bindings: Bindings
) -> Iterator[str]:
    """The calls in the class body of a parent.

    A merged body makes them in another order, or not at all.
    """
    node = _find_statement(block, symbol.name)
    called, read = _find_called(node), _find_read(node)
    body = f"the body of {symbol.name}"
    for reference in block.references:
        position = (reference.line, reference.column)
        if position in called and not _is_known(index, reference, bindings):
            yield f"{body} calls {_spell(reference)} when the class is made"
        elif position in read and _gets_its_name(index, reference, bindings):
            yield f"{body} holds {reference.name}, which is told its class and its name"
    outside = {(reference.line, reference.column) for reference in block.references}
    for name, callee in _find_called_names(node):
        if (name.lineno, name.col_offset) not in outside:
            yield f"{body} calls {ast.unparse(callee)} of its own when the class is made"


def _find_called(node: ast.ClassDef) -> set[tuple[int, int]]:
    """The positions of the names by which calls and decorators in the class body begin."""
    names = [first_name(callee) for callee in _find_callees(node)]
    return {(name.lineno, name.col_offset) for name in names}


def _find_callees(node: ast.ClassDef) -> list[ast.expr]:
    """What is called when the class is made; a decorator is called, however it is written."""
    found = [inner.func for inner in _walk_eager(node) if isinstance(inner, ast.Call)]
    for statement in node.body:
        found += getattr(statement, "decorator_list", [])
    return found


def _find_called_names(node: ast.ClassDef) -> Iterator[tuple[ast.Name, ast.expr]]:
    """What is called by a name, with that name; `@x.setter` of a property is left out."""
    for callee in _find_callees(node):
        name = first_name(callee)
        is_accessor = isinstance(callee, ast.Attribute) and callee.attr in _ACCESSORS
        if isinstance(name, ast.Name) and not is_accessor:
            yield name, callee


def _find_read(node: ast.ClassDef) -> set[tuple[int, int]]:
    names = [inner for inner in _walk_eager(node) if isinstance(inner, ast.Name)]
    return {(name.lineno, name.col_offset) for name in names}


def _walk_eager(owner: ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a class body that run when the class is made, without annotations."""
    stack: list[ast.AST] = list(owner.body)
    while stack:
        node = stack.pop()
        yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                stack += node.decorator_list
                stack += _read_defaults(node.args)
            case ast.Lambda():
                stack += _read_defaults(node.args)
            case ast.AnnAssign():
                if node.value:
                    stack.append(node.value)
            case _:
                stack += ast.iter_child_nodes(node)


def _read_defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default)]


def first_name(node: ast.expr) -> ast.expr:
    """What a chain of attributes, calls and subscripts begins with: `a.b(c)[0]` gives `a`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _spell(reference: Reference) -> str:
    return ".".join([reference.name, *reference.attributes])


def meaning(
    index: ModuleIndex, reference: Reference, bindings: Bindings
) -> tuple[Symbol | None, int]:
    """What the read name means, and how many of the attributes behind it that takes."""
    symbol, used = bindings.meaning(index, reference.name), 0
    while symbol is not None and not symbol.name and used < len(reference.attributes):
        symbol = bindings.canonical(Symbol(symbol.module, reference.attributes[used]), Location(""))
        used += 1
    return symbol, used


def _is_known(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether the order and the place of calls make no difference for the function."""
    symbol, _ = meaning(index, reference, bindings)
    if symbol is None:
        return True  # a builtin
    if str(symbol).startswith(EDITS):
        return True  # not there any more when the class is made
    return not bindings.flatten_scope.flattens(symbol.module) and _is_of_a_known_package(symbol)


def _is_of_a_known_package(symbol: Symbol) -> bool:
    top = symbol.module.partition(".")[0]
    return top in _KNOWN or top in sys.stdlib_module_names


def _gets_its_name(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether the file of what a name means defines `__set_name__`."""
    symbol, _ = meaning(index, reference, bindings)
    if symbol is None:
        return False
    if _is_of_a_known_package(symbol) and not bindings.flatten_scope.flattens(symbol.module):
        return False
    home = index
    if symbol.module != index.source.module:
        if bindings.env.path(symbol.module) is None:
            return False
        home = bindings.env.index(symbol.module, Location(""))
    return "__set_name__" in home.source.text


def _check_base(symbol: Symbol, lineages: Lineages) -> Iterator[str]:
    """A base that stays and is told of each subclass, by a metaclass or `__init_subclass__`."""
    # The bases that stay are not flattened, so all files have to be read.
    everywhere = Lineages(Bindings(lineages.bindings.env, Everywhere("")))
    nowhere = Location("")
    try:
        line = everywhere.mro(everywhere.bindings.canonical(symbol, nowhere), nowhere)
        for base in line:
            # Their hooks work alike for a merged class.
            if _is_of_a_known_package(base) or base.module == "builtins":
                continue
            if lineages.bindings.env.path(base.module) is None:
                yield f"of the base {base} nothing is known"
                return
            block = everywhere.bindings.require(base, nowhere)
            has_hook = "__init_subclass__" in block.text or "metaclass" in block.text
            if block.kind != "class" or has_hook:
                yield f"the base {base} sees every class that derives from it"
    except PatchgenError:
        yield f"of the base {symbol} nothing is known"
