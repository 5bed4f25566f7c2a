"""Find whether a class edits or removes what it inherits, which only a merged class can do.

@edit("forward")
def scale(self, x): ...         edits a method

def prune_heads(self):          removes a method
    raise AttributeError
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import called_function, find_class, list_arguments

MODULE = "patchgen.edits"


def makes_rewrites(chain: Iterable[tuple[ModuleIndex, Symbol]], bindings: Bindings) -> bool:
    """Whether a class of `chain` edits or removes what a class behind it has."""
    bodies: list[tuple[ModuleIndex, ast.ClassDef]] = []
    for index, symbol in chain:
        node = _find_statement(index, symbol.name)
        if node is not None:
            bodies.append((index, node))
    # The last class has nothing behind it.
    for place, (index, node) in enumerate(bodies[:-1]):
        if _makes_edits(index, node, bindings):
            return True
        behind: set[str] = set()
        for _, other in bodies[place + 1 :]:
            behind.update(bound_names(other.body))
        removed = {removed_name(statement) for statement in node.body}
        # Removing what no parent binds is no removal.
        if removed & behind:
            return True
    return False


def _find_statement(index: ModuleIndex, name: str) -> ast.ClassDef | None:
    """The class statement of a chain; None where something else makes the class."""
    block = index.definition(name)
    # A class may also be made by a call, or be bound under a condition.
    if block is None or block.kind != "class":
        return None
    return find_class(block.text, name)


def _makes_edits(index: ModuleIndex, node: ast.ClassDef, bindings: Bindings) -> bool:
    """Whether a statement of the class body is an edit."""
    return any(is_edit(index, statement, bindings) for statement in node.body)


def is_edit(index: ModuleIndex, statement: ast.stmt, bindings: Bindings) -> bool:
    """Whether a statement of a class body edits a method: `@edit("forward")` stands above it."""
    # The words of an edit have to be imported, so most files need no look.
    if "patchgen" not in index.source.text:
        return False
    for decorator in getattr(statement, "decorator_list", []):
        written = ast.unparse(called_function(decorator))
        if bindings.dotted(index, written, index.source.at(1)) == Symbol(MODULE, "edit"):
            return True
    return False


def removed_name(node: ast.stmt) -> str | None:
    """The name that a statement of a class body removes."""
    match node:
        # `def x(self): raise AttributeError`, with or without a docstring that says why.
        case ast.FunctionDef(name=name, decorator_list=[], body=body):
            if ast.get_docstring(node, clean=False) is not None:
                body = body[1:]
            match body:
                case [ast.Raise(exc=exc, cause=None)] if _is_attribute_error(exc):
                    return name
        # `x = AttributeError()`, for what is no method.
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as value)
        ):
            if _is_attribute_error(value):
                return name
    return None


def _is_attribute_error(node: ast.expr | None) -> bool:
    """Whether an expression is `AttributeError`, called or not, with no more than a fixed text.

    `raise AttributeError(name)` is the body of a method, such as `__getattr__`.
    """
    if node is None:
        return False
    if isinstance(node, ast.Call):
        arguments = list_arguments(node)
        if not all(isinstance(argument, ast.Constant) for argument in arguments):
            return False
    called = called_function(node)
    return isinstance(called, ast.Name) and called.id == "AttributeError"
