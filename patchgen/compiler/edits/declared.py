"""An edit as a class of the chain declares it: `@edit("method")` above `with old:` and `with new:`.

In: a statement of a class body.  Out: an `EditDeclaration`, or None where it is no edit.  The words of
`patchgen.edits` are known by what they stand for, not by how they are spelled.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.edits.ellipsis import KINDS, find_ellipses, is_ellipsis
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError

MARKERS = "patchgen.edits"


@dataclass(frozen=True, slots=True)
class EditDeclaration:
    """One `@edit("method")` function, read."""

    method: str
    count: int
    statement: Statement
    node: ast.FunctionDef | ast.AsyncFunctionDef
    target: ast.expr
    holes: tuple[str, ...]
    literal: tuple[ast.arg, ...]
    old: ast.With
    new: ast.With


def marker(body: ClassBody, node: ast.expr) -> str | None:
    """Which of the words of `patchgen.edits` stands at `node`, under whatever name it was imported."""
    needs = body.block.dependencies
    match node:
        case ast.Name(id=name):
            symbol = needs.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=attribute):
            owner = needs.get(module)
            symbol = Symbol(str(owner), attribute) if owner else None
        case _:
            return None
    return symbol.name if symbol and symbol.module == MARKERS else None


def read_edit(body: ClassBody, statement: Statement) -> EditDeclaration | None:
    """The edit that `statement` declares, if it is one.

    Raises PatchgenError PG302 where it is one in another form.
    """
    node = statement.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    calls = [
        d
        for d in node.decorator_list
        if marker(body, d.func if isinstance(d, ast.Call) else d) == "edit"
    ]
    if not calls:
        return None
    at = body.at(statement, node)
    if len(node.decorator_list) != 1:
        raise PatchgenError(
            "PG302", at, "an edit is a function with one decorator", "remove the others"
        )
    target, method, count = _target(body, statement, calls[0])
    match _parts(node):
        case [ast.With(items=[first]) as old, ast.With(items=[second]) as new]:
            words = [marker(body, item.context_expr) for item in (first, second)]
        case _:
            words = []
    if words != ["old", "new"]:
        what = f"the edit of {method} is not `with old:` followed by `with new:`"
        raise PatchgenError("PG302", at, what, "write exactly these two blocks")
    if is_ellipsis(old.body[0]) or is_ellipsis(old.body[-1]):
        what = f"the edit of {method} begins or ends with `...`, which has no bounds there"
        raise PatchgenError(
            "PG302", body.at(statement, old), what, "write the code between which it stands"
        )
    _refuse_dots(body, statement, old, new)
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    holes = tuple(a.arg for a in arguments if a.annotation and marker(body, a.annotation) == "Hole")
    literal = tuple(a for a in arguments if a.arg not in holes)
    return EditDeclaration(method, count, statement, node, target, holes, literal, old, new)


def _parts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """What stands in an edit below its docstring, without a `while ...:` around it."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    match body:
        case [ast.While(test=ast.Constant(value=value), body=inner, orelse=[])] if value is ...:
            return inner
        case _:
            return body


def _target(body: ClassBody, statement: Statement, call: ast.expr) -> tuple[ast.expr, str, int]:
    match call:
        case ast.Call(args=[ast.Constant(value=str(method)) as target], keywords=[]):
            return target, method, 1
        case ast.Call(
            args=[ast.Constant(value=str(method)) as target],
            keywords=[ast.keyword(arg="count", value=ast.Constant(value=int(n)))],
        ) if n > 0:
            return target, method, n
        case _:
            at = body.at(statement, call)
            raise PatchgenError(
                "PG302", at, "@edit takes a method's name and a count", 'write @edit("forward")'
            )


def _refuse_dots(body: ClassBody, statement: Statement, old: ast.With, new: ast.With) -> None:
    """`...` under `with new:` needs the one `...` under `with old:` that it stands for."""
    for kind in KINDS:
        given, wanted = find_ellipses(old.body, kind), find_ellipses(new.body, kind)
        if not wanted or len(given) == len(wanted) == 1:
            continue
        at = body.at(statement, wanted[-1])
        if not given:
            what = f"`...` under `with new:` stands for nothing: `with old:` has none for {kind}"
            raise PatchgenError(
                "PG307", at, what, "write the `...` under `with old:` that it repeats"
            )
        what = f"`...` for {kind} stands {len(given)} times under `with old:` and {len(wanted)} times under `with new:`"
        raise PatchgenError(
            "PG307", at, what, "write it once under each, and use a Hole for the others"
        )
