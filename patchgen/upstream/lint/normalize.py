"""Normalize syntax trees, so that trees of code that does the same are equal.

    x: int = 2                      x = 2               inside functions
    super(Own, self).f()            super().f()
    d.get(key, None)                d.get(key)

Docstrings are removed too.  In: text.  Out: an `ast` tree.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from patchgen.syntax.text import parse_text
from patchgen.syntax.trees import called_function, list_parameters

_Node = TypeVar("_Node", bound=ast.AST)
FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef
# They write `__doc__`, or are read by the converter alone.
_DOCUMENTING = frozenset(
    "auto_docstring add_start_docstrings add_start_docstrings_to_model_forward add_end_docstrings"
    " add_code_sample_docstrings replace_return_docstrings no_inherit_decorator".split()
)


def parse_normalized(text: str, path: str) -> ast.Module:
    """The tree of `text`, normalised."""
    return normalize_tree(parse_text(text, path))


def normalize_tree(tree: ast.Module) -> ast.Module:
    """`tree`, in place, without what has no behaviour: for one that nobody else has seen yet."""
    for node in every_node(tree):
        match node:
            case ast.Call():
                _shorten(node)
            case ast.ClassDef():
                node.decorator_list = _telling(node.decorator_list)
                node.body = [s for s in node.body if not _is_idle(s)]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                _unannotate(node)
    return tree


def every_node(*roots: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `roots`, in no order, but for `Load` and `Store`.

    `ast.walk` takes three times as long.
    """
    stack: list[object] = list(roots)
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            stack += [inner for inner in vars(value).values() if isinstance(inner, ast.AST | list)]
            yield value


def with_fields(node: _Node, **fields: object) -> _Node:
    """A node as `node` is but for `fields`.

    Trees are shared, and what is known of them is kept by `dumped`: once somebody has one, it is
    never changed.
    """
    # Not by `copy.copy`: what the copy holds of `dumped` would be that of the original.
    made = type(node)(**{**dict(ast.iter_fields(node)), **fields})
    return ast.copy_location(made, node) if "lineno" in node._attributes else made


def rebuilt(node: _Node, change: Callable[[ast.AST], ast.AST]) -> _Node:
    """`node` with `change` made to every node in it, innermost first.

    A part without a change is the same object.
    """
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(node):
        new = _rebuild_field(value, change)
        if new is not value:
            fields[name] = new
    changed = change(with_fields(node, **fields) if fields else node)
    assert isinstance(changed, type(node))
    return changed


def _rebuild_field(value: object, change: Callable[[ast.AST], ast.AST]) -> object:
    """A field of a node after `change`; the same object where nothing changed."""
    if isinstance(value, ast.AST):
        return rebuilt(value, change)
    if not isinstance(value, list):
        return value
    items = [_rebuild_field(item, change) for item in value]
    # An equal list would look like a change.
    is_same = all(new is old for new, old in zip(items, value, strict=True))
    return value if is_same else items


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


def _unannotate(node: FunctionDef) -> None:
    """Leave out annotations and docstring of a function, in place."""
    plain = [_without_annotation(statement) for statement in node.body]
    node.decorator_list = _telling(node.decorator_list)
    # The types of local variables are never evaluated.
    node.body = [s for s in plain if s is not None and not _is_idle(s)]
    node.returns = None
    for parameter in list_parameters(node.args):
        parameter.annotation = parameter.type_comment = None


def _shorten(node: ast.Call) -> None:
    """Write `super(Own, self)` as `super()`, and `.get(key, None)` as `.get(key)`."""
    # Both say the same to Python: transformers' linter writes the short forms.
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, ast.Constant(None)]):
            node.args = [key]
        case ast.Call(func=ast.Name("super"), args=[ast.Name(), ast.Name("self" | "cls")]):
            node.args = []


def _telling(decorators: list[ast.expr]) -> list[ast.expr]:
    return [d for d in decorators if called(d) not in _DOCUMENTING]


def called(decorator: ast.expr) -> str:
    """The last name of a decorator."""
    callee = called_function(decorator)
    match callee:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ast.unparse(callee).rpartition(".")[2]


def _is_idle(node: ast.stmt) -> bool:
    # A constant as a statement: a docstring, or `...`.
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant or isinstance(node, ast.Pass)


def _without_annotation(node: ast.stmt) -> ast.stmt | None:
    """`x: T = v` in a function as `x = v`; `x: T` is nothing."""
    if not isinstance(node, ast.AnnAssign):
        return node
    if node.value is None:
        return None
    return ast.copy_location(ast.Assign([node.target], node.value), node)
