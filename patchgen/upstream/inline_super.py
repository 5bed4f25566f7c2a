"""What takes the place of `super().method(...)` in a method that a modular class defines.

In: the statements of the method and of the parent's.  Out: the statements of the merged method:
what stands before the call, the parent's body changed by what stands after the call, and what of
that is not in it already.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from patchgen.upstream.method import Body
from patchgen.upstream.statements import Statement, is_docstring, slice_of

POST_INIT = "self.post_init("
SUPER_INIT = "super().__init__"


@dataclass(slots=True)
class Tables:
    """What the statements after super() calls assign and delete, by the text of the target.

    One for all methods of a class, as in transformers: an assignment in `__init__` also replaces
    the same target in a method that is unravelled later (`num_patches` in vivit, which is shipped
    so).
    """

    assigned: dict[str, Statement] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def note(self, lines: Sequence[str], statement: Statement) -> None:
        """Enters what `statement` assigns or deletes; only whole statements of one target count."""
        match statement.node:
            case ast.Assign(targets=[target, *_]) if statement.alone:
                self.assigned[slice_of(lines, target)] = statement
            case ast.Delete(targets=[target]) if statement.alone:
                self.deleted.add(slice_of(lines, target))


def super_call(statement: Statement, name: str) -> bool:
    """Whether it is `super().name(...)`, returned or not, and nothing else."""
    match statement.node:
        case (
            ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name("super"), args=[]), attr=attr)
                )
            )
            | ast.Return(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name("super"), args=[]), attr=attr)
                )
            )
        ):
            return attr == name and statement.alone
    return False


def inherited_body(parent: Body, tail: Sequence[Statement], tables: Tables) -> list[Statement]:
    """The parent's statements without docstring, with those replaced and dropped that `tables`
    name, then the tail.
    """
    body: list[Statement] = []
    present: set[str] = set()
    for statement in parent.statements:
        if is_docstring(statement):
            continue
        target = _target(statement, parent.lines)
        if target in tables.deleted:
            continue
        if target in tables.assigned and isinstance(statement.node, ast.Assign):
            statement = tables.assigned[target]
        body.append(statement)
        present.add(statement.plain)
    for statement in tail:
        if isinstance(statement.node, ast.Delete) or statement.plain in present:
            continue
        body.append(statement)
        present.add(statement.plain)
    return body


def _target(statement: Statement, lines: Sequence[str]) -> str:
    match statement.node:
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) if statement.alone:
            return slice_of(lines, target)
    return ""


def hoist_init(body: list[Statement], parent: Sequence[Statement]) -> list[Statement]:
    """`super().__init__` below the docstring, if it stands there in the parent's method."""
    in_parent = next((s for s in parent if not is_docstring(s)), None)
    if in_parent is None or SUPER_INIT not in in_parent.text:
        return body
    place = next((i for i, s in enumerate(body) if SUPER_INIT in s.text), 0)
    top = next((i for i, s in enumerate(body) if not is_docstring(s)), 0)
    if place <= top:
        return body
    return [*body[:top], body[place], *body[top:place], *body[place + 1 :]]


def post_init_last(body: list[Statement]) -> list[Statement]:
    """`self.post_init(` as the last statement."""
    place = next((i for i, s in enumerate(body) if POST_INIT in s.text), len(body))
    return [*body[:place], *body[place + 1 :], *body[place : place + 1]]
