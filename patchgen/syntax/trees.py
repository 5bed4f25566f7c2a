"""Answer the questions about `ast` nodes that several packages ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Position = tuple[int, int]  # line and byte column of a node, as `ast` counts them


def position_of(node: ast.expr | ast.stmt | ast.arg) -> Position:
    """Where `node` begins: nodes of two parses of one text are the same if this is the same."""
    return (node.lineno, node.col_offset)


def names_within(node: ast.AST) -> Iterator[ast.Name]:
    """Every name in `node`, at any depth, scopes inside it included."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner


def mentions(node: ast.AST, name: str) -> bool:
    """Whether `name` is read or bound anywhere in `node`."""
    return any(inner.id == name for inner in names_within(node))


def list_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters in the order of the signature, `*args` and `**kwargs` included."""
    found = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        found.append(arguments.vararg)
    found += arguments.kwonlyargs
    if arguments.kwarg:
        found.append(arguments.kwarg)
    return found


def list_defaults(arguments: ast.arguments) -> list[ast.expr]:
    """The defaults that are written: `ast` has None for a keyword-only parameter without one."""
    keyword_only = [default for default in arguments.kw_defaults if default is not None]
    return [*arguments.defaults, *keyword_only]


def called_function(node: ast.expr) -> ast.expr:
    """The function of a call; a decorator that is written without a call is one itself."""
    return node.func if isinstance(node, ast.Call) else node


def parse_class(text: str) -> ast.ClassDef:
    """The first class statement of `text`, which has one."""
    return next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
