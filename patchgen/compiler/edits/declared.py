"""Read an edit as a class declares it: `@edit("method")` above `with old:` and `with new:`.

In: a statement of a class body.  Out: an `EditDeclaration`, or None where it is no edit.  The words
of `patchgen.edits` are recognized by what they mean, under whatever name they were imported.

    @edit("forward")
    def scale(self, x, size: Hole):     # holes: size; literal: self, x
        with old: ...
        with new: ...
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.compiler.edits.ellipsis import KINDS, find_ellipses, is_ellipsis
from patchgen.compiler.merge.members import ClassBody, Statement
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.trees import called_function

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
    """The word of `patchgen.edits` that `node` means, under whatever name it was imported."""
    symbol = _find_symbol(body, node)
    if symbol is None or symbol.module != MARKERS:
        return None
    return symbol.name


def _find_symbol(body: ClassBody, node: ast.expr) -> Symbol | None:
    """What a name, or an attribute of a name, means in the file of the class."""
    needs = body.block.dependencies
    match node:
        case ast.Name(id=name):
            return needs.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in needs:
            return Symbol(str(needs[module]), attribute)
        case _:
            return None


def read_edit(body: ClassBody, statement: Statement) -> EditDeclaration | None:
    """The edit that `statement` declares, if it is one.

    Raises PatchgenError PG302 where it is one in another form.
    """
    node = statement.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    call = _find_edit_decorator(body, node)
    if call is None:
        return None
    if len(node.decorator_list) != 1:
        what = "an edit is a function with one decorator"
        raise PatchgenError("PG302", body.at(statement, node), what, "remove the others")
    target, method, count = _read_target(body, statement, call)
    old, new = _read_blocks(body, statement, node, method)
    # It could match any number of statements there.
    if is_ellipsis(old.body[0]) or is_ellipsis(old.body[-1]):
        what = f"the edit of {method} begins or ends with `...`, which has no bounds there"
        hint = "write the code between which it stands"
        raise PatchgenError("PG302", body.at(statement, old), what, hint)
    _refuse_ellipses(body, statement, old, new)
    holes: list[str] = []
    literal: list[ast.arg] = []
    # All kinds of parameters count: their names are what matters.
    for parameter in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        if parameter.annotation and marker(body, parameter.annotation) == "Hole":
            holes.append(parameter.arg)
        else:
            literal.append(parameter)
    return EditDeclaration(
        method=method,
        count=count,
        statement=statement,
        node=node,
        target=target,
        holes=tuple(holes),
        literal=tuple(literal),
        old=old,
        new=new,
    )


def _find_edit_decorator(
    body: ClassBody, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> ast.expr | None:
    """The decorator that makes an edit of a function; None where it is no edit."""
    # `@edit` may be imported under another name.
    for decorator in node.decorator_list:
        if marker(body, called_function(decorator)) == "edit":
            return decorator
    return None


def _read_blocks(
    body: ClassBody,
    statement: Statement,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    method: str,
) -> tuple[ast.With, ast.With]:
    """`with old:` and `with new:`; they may be imported under other names too."""
    match _read_parts(node):
        case [ast.With(items=[first]) as old, ast.With(items=[second]) as new]:
            words = [marker(body, item.context_expr) for item in (first, second)]
            if words == ["old", "new"]:
                return old, new
    what = f"the edit of {method} is not `with old:` followed by `with new:`"
    raise PatchgenError("PG302", body.at(statement, node), what, "write exactly these two blocks")


def _read_parts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of an edit below its docstring, without a `while ...:` around them."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    match body:
        case [ast.While(test=ast.Constant(value=value), body=inner, orelse=[])] if value is ...:
            return inner
        case _:
            return body


def _read_target(
    body: ClassBody, statement: Statement, call: ast.expr
) -> tuple[ast.expr, str, int]:
    """The node that names the method, its name, and how often the edit has to match."""
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
            what = "@edit takes a method's name and a count"
            raise PatchgenError("PG302", at, what, 'write @edit("forward")')


def _refuse_ellipses(body: ClassBody, statement: Statement, old: ast.With, new: ast.With) -> None:
    """`...` under `with new:` needs the one `...` under `with old:` that it stands for."""
    for kind in KINDS:
        given, wanted = find_ellipses(old.body, kind), find_ellipses(new.body, kind)
        # Not repeated, or repeated once: then it is clear what it stands for.
        if not wanted or len(given) == len(wanted) == 1:
            continue
        at = body.at(statement, wanted[-1])
        if not given:
            what = f"`...` under `with new:` stands for nothing: `with old:` has none for {kind}"
            hint = "write the `...` under `with old:` that it repeats"
            raise PatchgenError("PG307", at, what, hint)
        what = (
            f"`...` for {kind} stands {len(given)} times under `with old:` "
            f"and {len(wanted)} times under `with new:`"
        )
        hint = "write it once under each, and use a Hole for the others"
        raise PatchgenError("PG307", at, what, hint)
