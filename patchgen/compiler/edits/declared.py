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
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import Positioned
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.edits.pattern import is_ellipsis
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.same import Function
from patchgen.syntax.trees import called_function, walk

MARKERS = "patchgen.edits"


@dataclass(frozen=True, slots=True)
class EditDeclaration:
    """One `@edit("method")` function of the class `body`, read."""

    body: ClassBody
    method: str
    count: int
    statement: Statement
    node: Function
    target: ast.expr
    holes: tuple[str, ...]
    literal: tuple[ast.arg, ...]
    old: ast.With
    new: ast.With

    def at(self, node: Positioned) -> Location:
        """Where `node` of the declaration stands."""
        return self.body.at(self.statement, node)


def marker(body: ClassBody, node: ast.expr) -> str | None:
    """The word of `patchgen.edits` that `node` means, under whatever name it was imported."""
    needs, symbol = body.block.dependencies, None
    match node:
        case ast.Name(id=name):
            symbol = needs.get(name)
        case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in needs:
            symbol = Symbol(str(needs[module]), attribute)
    return symbol.name if symbol is not None and symbol.module == MARKERS else None


def read_edit(body: ClassBody, statement: Statement) -> EditDeclaration | None:
    """The edit that `statement` declares, if it is one.

    Raises PatchgenError PG302 where it is one in another form.
    """
    node = statement.node
    if not isinstance(node, Function):
        return None
    # `@edit` may be imported under another name.
    is_edit = [marker(body, called_function(each)) == "edit" for each in node.decorator_list]
    if not any(is_edit):
        return None
    if len(is_edit) != 1:
        what = "an edit is a function with one decorator"
        raise PatchgenError("PG302", body.at(statement, node), what, "remove the others")
    (call,) = node.decorator_list
    match call:
        case ast.Call(args=[ast.Constant(value=str(method)) as target], keywords=[]):
            count = 1
        case ast.Call(
            args=[ast.Constant(value=str(method)) as target],
            keywords=[ast.keyword(arg="count", value=ast.Constant(value=int(count)))],
        ) if count > 0:
            pass
        case _:
            what = "@edit takes a method's name and a count"
            hint = 'write @edit("forward")'
            raise PatchgenError("PG302", body.at(statement, call), what, hint)
    old, new = _read_blocks(body, statement, node, method)
    # It could match any number of statements there.
    if is_ellipsis(old.body[0]) or is_ellipsis(old.body[-1]):
        what = f"the edit of {method} begins or ends with `...`, which has no bounds there"
        hint = "write the code between which it stands"
        raise PatchgenError("PG302", body.at(statement, old), what, hint)
    _refuse_ellipses(body, statement, old, new)
    # All kinds of parameters count: their names are what matters.
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    holes = [p for p in parameters if p.annotation and marker(body, p.annotation) == "Hole"]
    literal = tuple(parameter for parameter in parameters if parameter not in holes)
    names = tuple(hole.arg for hole in holes)
    return EditDeclaration(body, method, count, statement, node, target, names, literal, old, new)


def _read_blocks(
    body: ClassBody, statement: Statement, node: Function, method: str
) -> tuple[ast.With, ast.With]:
    """`with old:` and `with new:`; they may be imported under other names too."""
    parts = node.body[1:] if ast.get_docstring(node) is not None else node.body
    match parts:
        # `while ...:` stands for any loop around the place.
        case [ast.While(test=ast.Constant(value=value), body=inner, orelse=[])] if value is ...:
            parts = inner
    match parts:
        case [ast.With(items=[first]) as old, ast.With(items=[second]) as new]:
            words = [marker(body, item.context_expr) for item in (first, second)]
            if words == ["old", "new"]:
                return old, new
    what = f"the edit of {method} is not `with old:` followed by `with new:`"
    raise PatchgenError("PG302", body.at(statement, node), what, "write exactly these two blocks")


def _refuse_ellipses(body: ClassBody, statement: Statement, old: ast.With, new: ast.With) -> None:
    """`...` under `with new:` needs the one `...` under `with old:` that it stands for."""
    for kind in ("arguments", "statements"):
        matched, wanted = _find_ellipses(old.body, kind), _find_ellipses(new.body, kind)
        # Not repeated, or repeated once: then it is clear what it stands for.
        if not wanted or len(matched) == len(wanted) == 1:
            continue
        at = body.at(statement, wanted[-1])
        if not matched:
            what = f"`...` under `with new:` stands for nothing: `with old:` has none for {kind}"
            hint = "write the `...` under `with old:` that it repeats"
            raise PatchgenError("PG307", at, what, hint)
        what = (
            f"`...` for {kind} stands {len(matched)} times under `with old:` "
            f"and {len(wanted)} times under `with new:`"
        )
        hint = "write it once under each, and use a Hole for the others"
        raise PatchgenError("PG307", at, what, hint)


def _find_ellipses(body: Sequence[ast.stmt], kind: str) -> list[ast.expr]:
    """Every `...` in `body` that stands for arguments of a call, or else for statements."""
    nodes = [node for statement in body for node in walk(statement)]
    if kind == "statements":
        return [node.value for node in nodes if isinstance(node, ast.Expr) and is_ellipsis(node)]
    # `f(x=...)` and `x[...]` are ellipses that Python knows, and stand for nothing.
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [argument for call in calls for argument in call.args if is_ellipsis(argument)]
