"""Syntax trees of what code does: without docstrings, annotations inside functions, and ways to write `super()`.

In: text.  Out: an `ast` tree that differs from another only where behaviour can differ.
"""

from __future__ import annotations

import ast
import functools

from patchgen.source.text import parse_text

FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef
# They write `__doc__`, or are read by the converter alone.
_DOCUMENTING = frozenset(
    "auto_docstring add_start_docstrings add_start_docstrings_to_model_forward add_end_docstrings"
    " add_code_sample_docstrings replace_return_docstrings no_inherit_decorator".split()
)


def plain_tree(text: str, path: str) -> ast.Module:
    """The tree of `text`, normalised."""
    tree = _Plain().visit(parse_text(text, path))
    assert isinstance(tree, ast.Module)
    return tree


def same(one: ast.AST | None, other: ast.AST | None) -> bool:
    """Whether both are the same code."""
    if one is None or other is None:
        return one is other
    return dumped(one) == dumped(other)


@functools.lru_cache(maxsize=20_000)
def dumped(node: ast.AST) -> str:
    """A text that is equal for equal code."""
    return ast.dump(node)


def short(node: ast.AST) -> str:
    """The first line of `node` as code, cut where it is long."""
    first, _, rest = ast.unparse(node).partition("\n")
    return f"{first[:97]}..." if len(first) > 100 or rest else first


class _Plain(ast.NodeTransformer):
    """Takes away what has no behaviour."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.decorator_list = _telling(node.decorator_list)
        node.body = [s for s in node.body if not _is_idle(s)]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self._function(node)
        return node

    def _function(self, node: FunctionDef) -> None:
        node.body = [plain for s in node.body if (plain := _without_annotation(s)) is not None]
        self.generic_visit(node)
        node.decorator_list = _telling(node.decorator_list)
        node.body = [s for s in node.body if not _is_idle(s)]
        node.returns = None
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                arg.annotation = arg.type_comment = None

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """`super(Own, self)` is `super()` in a method of `Own`, and `.get(key, None)` is `.get(key)`."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, ast.Constant(None)]):
                node.args = [key]
            case ast.Call(func=ast.Name("super"), args=[ast.Name(), ast.Name("self" | "cls")]):
                node.args = []
        return node


def _telling(decorators: list[ast.expr]) -> list[ast.expr]:
    return [d for d in decorators if called(d) not in _DOCUMENTING]


def called(decorator: ast.expr) -> str:
    """The last name of a decorator."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(callee).rpartition(".")[2]


def _is_idle(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _without_annotation(node: ast.stmt) -> ast.stmt | None:
    """`x: T = v` in a function as `x = v`; `x: T` is nothing."""
    if not isinstance(node, ast.AnnAssign):
        return node
    if node.value is None:
        return None
    return ast.copy_location(ast.Assign([node.target], node.value), node)
