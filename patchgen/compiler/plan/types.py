"""Find where code names a class as a type, and makes or uses no object of it.

class LlamaMLP(llama.LlamaMLP):         a base
    inner: llama.LlamaMLP               an annotation
isinstance(module, llama.LlamaMLP)      a check
with old:                               code of the parent, which an edit replaces
    llama.LlamaMLP(config)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.annotations import find_annotations
from patchgen.syntax.trees import Position, position_of, walk, walk_all


def find_types(tree: ast.Module, with_checks: bool) -> set[Position]:
    """Where such names stand; `with_checks`: in checks of what an object is, too."""
    parts = [*_find_types(tree)]
    if with_checks:
        parts += _find_checked(tree)
    return {position_of(node) for node in walk_all(parts) if isinstance(node, ast.Name)}


def _find_types(tree: ast.Module) -> Iterator[ast.AST]:
    yield from find_annotations(tree)
    for node in walk(tree):
        match node:
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.With(items=[ast.withitem(context_expr=ast.Name(id="old"))], body=body):
                yield from body


def _find_checked(tree: ast.Module) -> Iterator[ast.AST]:
    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                yield classes
            case ast.ExceptHandler(type=ast.expr() as classes) | ast.MatchClass(cls=classes):
                yield classes
