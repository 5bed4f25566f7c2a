"""Find how a method calls its parent's: by `super()` or a base's name, and with what arguments.

In: trees.  Out: trees in which calls that mean the same are written the same, and calls that lose
their meaning when transformers copies the text of the parent's method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.upstream.calls import parents_called
from patchgen.upstream.lint.inherited import passes_through
from patchgen.upstream.lint.members import members_of
from patchgen.upstream.lint.normalize import FunctionDef, rebuilt, with_fields


def named_super(node: ast.ClassDef, bases: Sequence[str]) -> ast.ClassDef:
    """`node` with `Base.method(self, ...)` of one of its bases written `super().method(...)`."""
    owners = parents_called(bases)

    def named(call: ast.AST) -> ast.AST:
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner) as func,
                args=[first, *rest],
            ):
                # `Base.make(cls)` is another matter: `super()` passes `self` by itself.
                passes_self = isinstance(first, ast.Name) and first.id == "self"
                if passes_self and ast.unparse(owner) in owners:
                    return with_fields(call, func=with_fields(func, value=_super()), args=rest)
        return call

    return rebuilt(node, named)


def lost_super(method: FunctionDef | None, above: ast.ClassDef) -> ast.expr | None:
    """A use of `super()` for a member of the parent class that stays in `method`, and goes past the
    parent.
    """
    members = members_of(above)
    for statement in method.body if method else ():
        # Below the inlined call, the parent's statements stand in the method.
        if method and is_inlined(statement, method.name):
            return None
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=attr) if (
                    attr in members.methods
                ):
                    return node
    return None


def ignored_arguments(method: FunctionDef, above: FunctionDef) -> ast.Call | None:
    """The call of `super()` that is replaced by the parent's body although it passes other
    arguments.
    """
    for statement in method.body:
        if is_inlined(statement, method.name):
            assert isinstance(statement, ast.Expr | ast.Return)
            call = statement.value
            assert isinstance(call, ast.Call)
            # The copied statements read the variables that are named as the parent's parameters.
            return None if passes_through(call, above) else call
    return None


def call_without_self(method: FunctionDef, shipped: FunctionDef) -> ast.Call | None:
    """A call of a class's own method in `method` that passes no `self`, and is `super()` in the
    shipped one.
    """
    calls: set[str] = set()
    for statement in shipped.body:
        calls.update(ast.unparse(call) for call, _ in _super_calls(statement))
    for node in ast.walk(method):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=attr)
            ):
                # By the name alone: classes begin with a capital.
                is_class = ast.unparse(owner).rpartition(".")[2][:1].isupper()
                func = ast.Attribute(_super(), attr, ast.Load())
                theirs = ast.Call(func, node.args, node.keywords)
                if is_class and ast.unparse(theirs) in calls:
                    return node
    return None


def _super() -> ast.Call:
    return ast.Call(ast.Name("super", ast.Load()), [], [])


def dropped_result(method: FunctionDef, above: FunctionDef) -> ast.Call | None:
    """The call of `super()`, its value unused, that is replaced by a body that returns one."""
    # Without a value, the copied `return` ends the method with None, as Python would.
    if not _returns_value(above):
        return None
    for statement in method.body:
        if is_inlined(statement, method.name) and isinstance(statement, ast.Expr):
            assert isinstance(statement.value, ast.Call)
            return statement.value
    return None


def _returns_value(method: FunctionDef) -> bool:
    """Whether a caller of the method gets a value from it."""
    for statement in method.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Return) and node.value:
                return True
    return False


def is_inlined(statement: ast.stmt, name: str) -> bool:
    """Whether transformers writes the parent's method in place of `statement`."""
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=attr))
        ):
            return attr == name
        case ast.Return(
            ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=attr))
        ):
            return attr == name
    return False


def _super_calls(statement: ast.stmt) -> Iterator[tuple[ast.Call, str]]:
    """Each call of `super().method`, with the method's name."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=attr)):
                yield node, attr
