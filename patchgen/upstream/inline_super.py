"""Replace `super().method(...)` in a method of a modular class by the parent's statements.

    def __init__(self, config):             def __init__(self, config):
        super().__init__(config)     ->         self.act = ACT2FN["silu"]     # the parent's
        self.act = nn.GELU()                    self.act = nn.GELU()          # replaces it

In: the statements of the method and of the parent's.  Out: the statements before the call, then the
parent's, in which those after the call replace what assigns to the same target, then the rest of
those after the call.
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
    """The statements after super() calls that assign and delete, by the text of the target.

    As in transformers, all methods of a class share one: an assignment in `__init__` also replaces
    the same target in a method that is inlined later (`num_patches` in vivit is shipped so).
    """

    assigned: dict[str, Statement] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def note(self, lines: Sequence[str], statement: Statement) -> None:
        """Record what `statement` assigns or deletes, if it has one target."""
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
    """The parent's statements without docstring, changed as `tables` say, then the tail."""
    body: list[Statement] = []
    # By text: a check that both methods make is made once.
    present: set[str] = set()
    for statement in parent.statements:
        if is_docstring(statement):
            continue
        target = _target(statement, parent.lines)
        if target in tables.deleted:
            continue
        # The child's statement takes the place of the parent's.
        if target in tables.assigned and isinstance(statement.node, ast.Assign):
            statement = tables.assigned[target]
        body.append(statement)
        present.add(statement.plain)
    for statement in tail:
        # A deletion has done its work, and nothing is said twice.
        if isinstance(statement.node, ast.Delete) or statement.plain in present:
            continue
        body.append(statement)
        present.add(statement.plain)
    return body


def _target(statement: Statement, lines: Sequence[str]) -> str:
    """The text of what a statement assigns to; "" for all others."""
    match statement.node:
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) if statement.alone:
            return slice_of(lines, target)
    return ""


def hoist_init(body: list[Statement], parent: Sequence[Statement]) -> list[Statement]:
    """`super().__init__` below the docstring, if it stands there in the parent's method."""
    first = _find_first(parent)
    if first is None or SUPER_INIT not in parent[first].text:
        return body
    top = _find_first(body) or 0
    places = [place for place, statement in enumerate(body) if SUPER_INIT in statement.text]
    # It stands at the top already, or nowhere.
    if not places or places[0] <= top:
        return body
    place = places[0]
    return [*body[:top], body[place], *body[top:place], *body[place + 1 :]]


def _find_first(body: Sequence[Statement]) -> int | None:
    """The place of the first statement that is no docstring."""
    for place, statement in enumerate(body):
        if not is_docstring(statement):
            return place
    return None


def post_init_last(body: list[Statement]) -> list[Statement]:
    """Move `self.post_init()` to the end."""
    # It initialises weights, so that every module must be there by then.
    place = next((i for i, s in enumerate(body) if POST_INIT in s.text), len(body))
    return [*body[:place], *body[place + 1 :], *body[place : place + 1]]
