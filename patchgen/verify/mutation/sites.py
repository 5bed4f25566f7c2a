"""Where in a file can an error be planted?

At expressions and statements that compute.  Not in what only speaks (docstrings, messages,
warnings, annotations), not in what only refuses (`raise`, `assert`, the test before a `raise`), and
not in f-strings, whose parts have no place of their own in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# The name of an error, and the expression that replaces the right one.
Mutation = tuple[str, ast.expr]
_SPEAKS = ("logger", "warnings", "logging")


@dataclass(frozen=True, slots=True)
class Site:
    """A node, its parent, and its function: "LlamaModel.forward", or "" outside of functions."""

    node: ast.AST
    parent: ast.AST
    field: str  # of the parent
    function: str
    body: _Function | None  # of that function


def find_sites(tree: ast.Module) -> Iterator[Site]:
    """Every place in a file where an error can be planted."""
    yield from _inside(tree, _Scope())


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names of the classes and functions around a node, and the outermost function."""

    name: str = ""
    body: _Function | None = None

    @property
    def function(self) -> str:
        return self.name if self.body is not None else ""


def _inside(node: ast.AST, scope: _Scope) -> Iterator[Site]:
    for field, child in _children(node):
        if (field, type(node)) not in _NOT_RUN:
            yield from _at(child, node, field, scope)


def _at(node: ast.AST, parent: ast.AST, field: str, scope: _Scope) -> Iterator[Site]:
    """`node` and all that is inside it."""
    if _only_speaks(node):
        return
    if only_refuses(node):
        for other in getattr(node, "orelse", ()):
            yield from _at(other, node, "orelse", scope)
        return
    yield Site(node, parent, field, scope.function, scope.body)
    if isinstance(node, _Function):
        yield from _of_function(node, scope)
    elif isinstance(node, ast.ClassDef) and scope.body is None:
        yield from _inside(node, _Scope(_within(scope.name, node.name)))
    else:
        yield from _inside(node, scope)


def _of_function(function: _Function, scope: _Scope) -> Iterator[Site]:
    """Its defaults run where it is defined; what is in its body, where it is called."""
    for default in (*function.args.defaults, *filter(None, function.args.kw_defaults)):
        yield from _at(default, function.args, "defaults", scope)
    # A function in a function is compiled with the outer one, which is what is called by name.
    own = scope if scope.body is not None else _Scope(_within(scope.name, function.name), function)
    for statement in function.body:
        yield from _at(statement, function, "body", own)


def _within(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


_NOT_RUN = {
    ("annotation", ast.arg),
    ("annotation", ast.AnnAssign),
    ("returns", ast.FunctionDef),
    ("decorator_list", ast.FunctionDef),
    ("decorator_list", ast.ClassDef),
    ("bases", ast.ClassDef),
    ("type_params", ast.FunctionDef),
    ("type_params", ast.ClassDef),
}


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _only_speaks(node: ast.AST) -> bool:
    if isinstance(
        node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Pass
    ):
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        return True
    if not isinstance(node, ast.Expr):
        return False
    called = node.value.func if isinstance(node.value, ast.Call) else None
    while isinstance(called, ast.Attribute):
        called = called.value
    return isinstance(node.value, ast.Constant) or (
        isinstance(called, ast.Name) and called.id in _SPEAKS
    )


def only_refuses(node: ast.AST) -> bool:
    """Whether this is an `if` that only raises, warns or logs."""
    return isinstance(node, ast.If) and all(map(_only_speaks, node.body))
