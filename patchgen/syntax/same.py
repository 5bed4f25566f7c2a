"""When two pieces of code are the same: as trees, and as trees without what only documents.

    def f(x: int) -> int:               def f( x ):
        "Return x."                         return x
        return x

These are two trees, and say the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from patchgen.facts.decorators import DOCUMENTING
from patchgen.syntax.trees import Function

NOT_COMPARED = frozenset({"ctx", "kind", "type_comment"})
"""Fields of nodes that say how a name is used or how a string is written, and not what runs."""


def only_function(nodes: Sequence[ast.stmt]) -> Function | None:
    """The one function that a member is; a property with a setter is two."""
    match nodes:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as function]:
            return function
    return None


def is_same_code(left: object, right: object) -> bool:
    """Whether two trees, or lists of them, are equal.

    Positions do not count, nor whether a name is read or bound, nor the `u` of a string.
    """
    # The first difference ends it, where `ast.dump` would write both of them out.
    if type(left) is not type(right):
        return False
    if isinstance(left, ast.AST):
        return all(
            is_same_code(getattr(left, name, None), getattr(right, name, None))
            for name in left._fields
            if name not in NOT_COMPARED
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(is_same_code, left, right))
    # `1` and `True` differ by their type; `repr` also tells 0.0 from -0.0.
    return repr(left) == repr(right)


def plain_text(node: ast.AST) -> str:
    """The text of a tree without docstrings, annotations and documenting decorators."""
    text: str | None = getattr(node, "_plain_text", None)
    if text is None:
        text = "".join(_plain(node))
        node._plain_text = text  # type: ignore[attr-defined]  # asked again and again
    return text


def plain_texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [plain_text(node) for node in nodes]


def is_documenting(decorator: ast.expr) -> bool:
    """Whether `decorator` gives what stands below it its documentation, and nothing else."""
    called = decorator
    if isinstance(decorator, ast.Call):
        called = decorator.func
    # `utils.auto_docstring` and `auto_docstring` are one decorator.
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in DOCUMENTING


def is_docstring(node: ast.stmt) -> bool:
    """Whether `node` is a string as a statement of its own."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def without_docstring(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """`body` without docstrings, and without `pass` and `...` beside other statements."""
    left = [node for node in body if not is_docstring(node)]
    real = [node for node in left if not _is_nothing(node)]
    return real or left[:1]


def _is_nothing(node: ast.stmt) -> bool:
    """Whether a statement is `pass` or `...`, and does nothing."""
    match node:
        case ast.Pass():
            return True
        case ast.Expr(value=ast.Constant(value=value)):
            return value is ...
    return False


def _plain(node: ast.AST) -> Iterable[str]:
    """The pieces of the text of `node`."""
    match node:
        case ast.Name(id=name):
            return ("N:", name, ";")
        case ast.Constant(value=str(value)):
            return ("S:", repr(value), ";")
        case ast.Constant(value=value):
            return ("C:", repr(value), type(value).__name__, ";")
        case ast.Attribute(value=value, attr=attr):
            return (*_plain(value), ".", attr, ";")
        case ast.AnnAssign(target=target, value=value) if value is not None:
            # An assignment that lost its annotation, or got one.
            return ("Assign(", *_plain(target), "=", *_plain(value), ")")
        case ast.Assign(targets=[target], value=value):
            return ("Assign(", *_plain(target), "=", *_plain(value), ")")
        case ast.AnnAssign(target=target):
            return ("Declared(", *_plain(target), ")")
        case ast.ImportFrom(module=module, names=names, level=level):
            return (
                "From(",
                "." * level,
                module or "",
                *(f"{a.name} {a.asname}," for a in names),
                ")",
            )
        case ast.arg(arg=arg):
            return ("arg:", arg, ";")
    return _all_plain(node)


def _all_plain(node: ast.AST) -> list[str]:
    """The pieces of a node without a rule of its own, field by field."""
    parts: list[str] = [type(node).__name__, "("]
    for name, field in ast.iter_fields(node):
        if name in ("ctx", "returns", "type_comment", "type_params", "kind") or field is None:
            continue
        parts.append(f"{name}=")
        for value in _counted(node, name, field):
            parts += _plain(value) if isinstance(value, ast.AST) else (repr(value),)
            parts.append(",")
    parts.append(")")
    return parts


def _counted(node: ast.AST, name: str, field: Any) -> list[Any]:
    """What of a field of `node` says something."""
    if not isinstance(field, list):
        return [field]
    if name == "decorator_list":
        return [one for one in field if not is_documenting(one)]
    if name != "body" or isinstance(node, ast.Module):
        return field
    body = without_docstring(field)
    # In a function, `x: T` without a value decides that x is local.
    if not isinstance(node, ast.ClassDef):
        return body
    return [one for one in body if not _only_declares(one)]


def _only_declares(node: ast.stmt) -> bool:
    """`config: LlamaConfig` in a class body: an annotation and nothing else."""
    return isinstance(node, ast.AnnAssign) and node.value is None


def says_same(one: str, other: str) -> bool:
    """Whether two pieces of code say the same, without what only documents.

    Members of a class stand at the margin, as far as their strings allow it.
    """
    return one == other or _plain_texts(one) == _plain_texts(other)


def _plain_texts(text: str) -> list[str]:
    """What each statement says; the text itself where it is no Python."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        try:
            body = ast.parse(f"if True:\n{text}").body
        except SyntaxError:
            return [text]
    return [plain_text(node) for node in body]
