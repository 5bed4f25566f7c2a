"""Tell the statements of a class body that edit or remove what the class inherits from the others.

@edit("forward")                        edits the parent's `forward`
def to_fp32(old, new): ...

def prune_heads(self, heads):           removes the parent's `prune_heads`
    raise AttributeError
"""

from __future__ import annotations

import ast

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.trees import called_function, list_arguments

MODULE = "patchgen.edits"


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
    arguments = list_arguments(node) if isinstance(node, ast.Call) else []
    if node is None or not all(isinstance(argument, ast.Constant) for argument in arguments):
        return False
    called = called_function(node)
    return isinstance(called, ast.Name) and called.id == "AttributeError"
