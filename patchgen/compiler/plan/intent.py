"""Find whether a class edits or removes what it inherits, which only a merged class can do.

@edit("forward")
def scale(self, x): ...

def prune_heads(self):
    raise AttributeError
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.scopes import bound_names

MODULE = "patchgen.edits"


def makes_rewrites(chain: Iterable[tuple[ModuleIndex, Symbol]], bindings: Bindings) -> bool:
    """Whether a class of `chain` edits or removes what a class behind it has."""
    bodies = [
        (index, node) for index, symbol in chain for node in _find_statement(index, symbol.name)
    ]
    for place, (index, node) in enumerate(bodies[:-1]):
        if _makes_edits(index, node, bindings):
            return True
        # Removing what no parent binds is no removal.
        behind = {name for _, other in bodies[place + 1 :] for name in bound_names(other.body)}
        if any(removed_name(statement) in behind for statement in node.body):
            return True
    return False


def _find_statement(index: ModuleIndex, name: str) -> Iterator[ast.ClassDef]:
    block = index.definition(name)
    if block is None or block.kind != "class":
        return
    for node in ast.parse(block.text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield node


def _makes_edits(index: ModuleIndex, node: ast.ClassDef, bindings: Bindings) -> bool:
    # The words of an edit have to be imported, so most files need no look.
    if "patchgen" not in index.source.text:
        return False
    edit = Symbol(MODULE, "edit")
    for statement in node.body:
        for decorator in getattr(statement, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if bindings.dotted(index, ast.unparse(called), index.source.at(1)) == edit:
                return True
    return False


def removed_name(node: ast.stmt) -> str | None:
    """The name that a statement of a class body removes."""
    match node:
        case ast.FunctionDef(name=name, decorator_list=[]):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            match body:
                case [ast.Raise(exc=exc, cause=None)] if _is_attribute_error(exc):
                    return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if (
            _is_attribute_error(value)
        ):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as value) if (
            _is_attribute_error(value)
        ):
            return name
    return None


def _is_attribute_error(node: ast.expr | None) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Name) and called.id == "AttributeError"
