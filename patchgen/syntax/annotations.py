"""Find annotations, and the forward references in one.

    x: "list[Cache]"                one: list[Cache]
    x: Literal["left", "right"]     none: these are values

A string that is no expression is text for somebody else, and is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.trees import children, walk


def find_annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Every annotation in `tree`: of parameters, of what functions return, of variables."""
    for node in walk(tree):
        match node:
            case (
                ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation)
            ):
                yield annotation
            case (
                ast.FunctionDef(returns=ast.expr() as returns)
                | ast.AsyncFunctionDef(returns=ast.expr() as returns)
            ):
                yield returns


def quoted_annotations(annotation: ast.expr) -> Iterator[ast.Constant]:
    """The string constants of an annotation that are forward references.

    The values of a `Literal`, what follows the type in an `Annotated`, and arguments are not.
    """
    stack: list[ast.AST] = [annotation]
    while stack:
        node = stack.pop()
        match node:
            case ast.Subscript(value=owner, slice=inner):
                name = last_name(owner)
                if name == "Literal":
                    continue
                # Only the first argument is a type; the others may be any text.
                if name == "Annotated" and isinstance(inner, ast.Tuple):
                    stack.append(inner.elts[0])
                    continue
            # A call is evaluated, and a string is what it is given: `Field("size")`.
            case ast.Call():
                continue
            case ast.Constant(value=str(text)):
                if not _is_expression(text):
                    continue
                yield node
        stack += children(node)


def last_name(node: ast.expr) -> str:
    """`Literal` for both `Literal` and `typing.Literal`; "" for what is no name."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _is_expression(text: str) -> bool:
    """Whether `text` can be parsed as one: a string in an annotation may be prose."""
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    return True
