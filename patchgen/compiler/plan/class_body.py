"""Find the calls that a class body makes while the class is made.

In: a class of a parent.  Out: a reason to keep it a parent for each call whose order or place some
code can notice.  A merged body makes the calls in another order, or not at all.

    class Base:
        field = register("x")       calls a function of its own module: noticed
        size = property(...)        calls a builtin, which cannot tell where it is called
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.intent import MODULE as EDITS
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location
from patchgen.syntax.reads import Reference
from patchgen.syntax.trees import Position, list_defaults, list_parameters, position_of, walk

# What a class body may call: none of it can tell in which class, or in which order, it is called.
_KNOWN = frozenset(
    {"accelerate", "huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers"}
)
# `@size.setter` only adds a function to a property.
_ACCESSORS = frozenset({"getter", "setter", "deleter"})


def check_calls(
    index: ModuleIndex, block: Block, node: ast.ClassDef, bindings: Bindings
) -> Iterator[str]:
    """The reasons for the class `node`, which stands in `block` of the module `index`."""
    # References of the block are told apart by their positions: those know what names mean.
    called = {position_of(first_name(callee)) for callee in _find_callees(node)}
    read = _find_read(node)
    body = f"the body of {node.name}"
    for reference in block.references:
        is_called = reference.position in called
        if is_called and not _is_known(index, reference, bindings):
            dotted = ".".join([reference.name, *reference.attributes])
            yield f"{body} calls {dotted} when the class is made"
            continue
        is_read = reference.position in read
        if is_read and _gets_its_name(index, reference, bindings):
            yield f"{body} holds {reference.name}, which is told its class and its name"
    # A name that is no global is bound in the body itself: a decorator that the class defines.
    outside = {reference.position for reference in block.references}
    for name, callee in _find_called_names(node):
        if position_of(name) not in outside:
            yield f"{body} calls {ast.unparse(callee)} of its own when the class is made"


def _find_callees(node: ast.ClassDef) -> list[ast.expr]:
    """What is called when the class is made; a decorator is called, however it is written."""
    found = _list_called(_walk_eager(node))
    for statement in node.body:
        found += getattr(statement, "decorator_list", [])
        # `x: sized("rows")` calls a function.  Other annotations have no effect but their value.
        for annotation in _list_annotations(statement):
            found += _list_called(walk(annotation))
    return found


def _list_called(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """What the calls among `nodes` call."""
    return [node.func for node in nodes if isinstance(node, ast.Call)]


def _list_annotations(statement: ast.stmt) -> list[ast.expr]:
    """The annotations that `statement` of a class body evaluates."""
    if isinstance(statement, ast.AnnAssign):
        return [statement.annotation]
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    parameters = list_parameters(statement.args)
    written = [*(parameter.annotation for parameter in parameters), statement.returns]
    return [annotation for annotation in written if annotation is not None]


def _find_called_names(node: ast.ClassDef) -> Iterator[tuple[ast.Name, ast.expr]]:
    """What is called by a name, with that name; `@x.setter` of a property is left out."""
    for callee in _find_callees(node):
        if isinstance(callee, ast.Attribute) and callee.attr in _ACCESSORS:
            continue
        name = first_name(callee)
        if isinstance(name, ast.Name):
            yield name, callee


def _find_read(node: ast.ClassDef) -> set[Position]:
    """The positions of the names that the class body reads when the class is made."""
    names = [inner for inner in _walk_eager(node) if isinstance(inner, ast.Name)]
    return {position_of(name) for name in names}


def _walk_eager(owner: ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a class body that run when the class is made, without annotations."""
    stack: list[ast.AST] = list(owner.body)
    while stack:
        node = stack.pop()
        yield node
        match node:
            # The body of a function runs later.
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                stack += node.decorator_list
                stack += list_defaults(node.args)
            case ast.Lambda():
                stack += list_defaults(node.args)
            case ast.AnnAssign():
                if node.value:
                    stack.append(node.value)
            case _:
                stack += ast.iter_child_nodes(node)


def first_name(node: ast.expr) -> ast.expr:
    """What a chain of attributes, calls and subscripts begins with: `a.b(c)[0]` gives `a`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def find_meaning(
    index: ModuleIndex, reference: Reference, bindings: Bindings
) -> tuple[Symbol | None, int]:
    """What the read name means, and how many of the attributes behind it that takes.

    `llama.LlamaMLP.forward`: the attributes of a module are definitions, those of a class not.
    """
    symbol = bindings.meaning(index, reference.name)
    used = 0
    for attribute in reference.attributes:
        # A symbol without a name is a module.
        if symbol is None or symbol.name:
            break
        symbol = bindings.canonical(Symbol(symbol.module, attribute), Location(""))
        used += 1
    return symbol, used


def _is_known(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether the order and the place of calls make no difference for the function."""
    symbol, _ = find_meaning(index, reference, bindings)
    if symbol is None:
        return True  # a builtin
    if str(symbol).startswith(EDITS):
        return True  # not there any more when the class is made
    return _is_known_from_outside(symbol, bindings)


def _is_known_from_outside(symbol: Symbol, bindings: Bindings) -> bool:
    """Whether `symbol` is of a known package, and not of a file that is flattened."""
    return is_of_known_package(symbol) and not bindings.flatten_scope.flattens(symbol.module)


def is_of_known_package(symbol: Symbol) -> bool:
    """Whether `symbol` comes from the standard library or from what every model imports."""
    top = symbol.module.partition(".")[0]
    return top in _KNOWN or top in sys.stdlib_module_names


def _gets_its_name(index: ModuleIndex, reference: Reference, bindings: Bindings) -> bool:
    """Whether the file of what a name means defines `__set_name__`."""
    symbol, _ = find_meaning(index, reference, bindings)
    if symbol is None or _is_known_from_outside(symbol, bindings):
        return False
    if symbol.module == index.source.module:
        return "__set_name__" in index.source.text
    # Without a file, it is a module made in C, or not installed: it cannot be looked at.
    if bindings.env.path(symbol.module) is None:
        return False
    home = bindings.env.index(symbol.module, Location(""))
    return "__set_name__" in home.source.text
