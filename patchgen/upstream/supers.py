"""Replace `super().method(...)` in a method of a modular class by the parent's statements.

    def __init__(self, config):             def __init__(self, config):
        super().__init__(config)     ->         self.act = ACT2FN["silu"]     # the parent's
        self.act = nn.GELU()                    self.act = nn.GELU()          # replaces it

In: the method and the parent's.  Out: the statements before the call, then the parent's, in which
those after the call replace what assigns to the same target, then the rest of those after the call.
Calls before it that name the parent class become `super()`: `nn.Module.__init__(self)` is written
as `super().__init__()`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from patchgen.facts.modules import CHECKPOINTED
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.trees import column_of, position_of, slice_of
from patchgen.upstream.members import Body, Method, Statement, cut_body

_PRE_TRAINED = "PreTrainedModel"
_POST_INIT = "self.post_init("
_SUPER_INIT = "super().__init__"
_Edit = tuple[int, int, int, int, str]
"""The line and column at which it begins, those at which it ends, in bytes, and the new text."""


@dataclass(slots=True)
class Tables:
    """The statements after super() calls that assign and delete, by the text of the target.

    As in transformers, all methods of a class share one: an assignment in `__init__` also replaces
    the same target in a method that is inlined later (`num_patches` in vivit is shipped so).
    """

    assigned: dict[str, Statement] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)


def parents_called(bases: Sequence[str]) -> frozenset[str]:
    """The dotted names that stand for the parent in a class with these bases."""
    names = set(bases)
    # The layer is written in the place of `nn.Module`, which the methods still name.
    if CHECKPOINTED in names:
        names.add("nn.Module")
    if any(_PRE_TRAINED in base for base in bases):
        names.add(_PRE_TRAINED)
    return frozenset(names)


def merge_body(
    method: Method,
    parent: Method | None,
    tables: Tables,
    parents: frozenset[str],
    names: Iterable[str],
    at: Callable[[int, int], Location],
) -> str:
    """The body of the merged method, without a docstring that only the parent's has.

    `names` are the methods of the parent.  Raises PatchgenError PG622 for a call of `super()` that
    no text of the parent can replace.
    """
    # Without such a call the body stays as it is, and need not be parsed.
    calls_super = f"super().{method.name}" in method.body
    if not calls_super and not any(f"{name}." in method.body for name in parents):
        return method.body
    body = cut_body(method)
    merged: list[Statement] = []
    for index, statement in enumerate(body.statements):
        if not _is_super_call(statement, method.name):
            merged.append(_to_super(statement, body.lines, parents))
            continue
        if parent is None:
            what = f"the parent has no method `{method.name}` of its own to put here"
            hint = did_you_mean(method.name, names)
            hint = hint or f"name the class: `Base.{method.name}(self, ...)`"
            # Line 1 of the parsed body is not of the class.
            node = statement.node
            where = at(method.line + node.lineno - 1, node.col_offset)
            raise PatchgenError("PG622", where, what, hint)
        # What is above the call stays; the parent's class is named there no longer.
        inherited = cut_body(parent)
        merged += _inherited(inherited, body.lines, body.statements[index + 1 :], tables)
        merged = _init_first(_post_init_last(merged), inherited.statements)
        break
    return "".join(statement.whole for statement in merged) + body.footer


def _is_super_call(statement: Statement, name: str) -> bool:
    """Whether it is `super().name(...)`, returned or not, and nothing else."""
    match statement.node:
        case ast.Expr(value=ast.Call(func=called)) | ast.Return(value=ast.Call(func=called)):
            match called:
                case ast.Attribute(value=ast.Call(func=ast.Name("super"), args=[]), attr=attr):
                    return attr == name and statement.alone
    return False


def _inherited(
    parent: Body, lines: Sequence[str], tail: Sequence[Statement], tables: Tables
) -> list[Statement]:
    """The parent's statements without docstring, changed by those of the `tail`, then the tail.

    `lines` are those of the tail.
    """
    for statement in tail:
        match statement.node:
            case ast.Assign(targets=[target, *_]) if statement.alone:
                tables.assigned[slice_of(lines, target)] = statement
            case ast.Delete(targets=[target]) if statement.alone:
                tables.deleted.add(slice_of(lines, target))
    body: list[Statement] = []
    for statement in parent.statements:
        key = ""
        match statement.node:
            case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target):
                key = slice_of(parent.lines, target) if statement.alone else ""
        if not statement.documents and key not in tables.deleted:
            # The child's statement takes the place of the parent's.
            takes_place = key in tables.assigned and isinstance(statement.node, ast.Assign)
            body.append(tables.assigned[key] if takes_place else statement)
    # By text: a check that both methods make is made once.
    present = {statement.plain for statement in body}
    for statement in tail:
        # A deletion has done its work, and nothing is said twice.
        if not isinstance(statement.node, ast.Delete) and statement.plain not in present:
            body.append(statement)
            present.add(statement.plain)
    return body


def _post_init_last(body: list[Statement]) -> list[Statement]:
    """Move `self.post_init()` to the end."""
    # It initialises weights, so that every module must be there by then.
    index = next((i for i, line in enumerate(body) if _POST_INIT in line.text), len(body))
    return [*body[:index], *body[index + 1 :], *body[index : index + 1]]


def _init_first(body: list[Statement], parent: Sequence[Statement]) -> list[Statement]:
    """`super().__init__` below the docstring, if it stands there in the parent's method.

    Not where the child names the base itself: sam3_tracker works on the configuration first.
    """
    first = next((line for line in parent if not line.documents), None)
    if first is None or _SUPER_INIT not in first.text:
        return body
    top = next((place for place, line in enumerate(body) if not line.documents), 0)
    calls = (place for place, line in enumerate(body) if _SUPER_INIT in line.text)
    call = next(calls, top)
    if call <= top:
        return body
    moved = [*body]
    statement = moved.pop(call)
    moved.insert(top, statement)
    return moved


def _to_super(statement: Statement, lines: Sequence[str], parents: frozenset[str]) -> Statement:
    """Write `Parent.method(self, ...)` anywhere in `statement` as `super().method(...)`."""
    # The tree need not be walked for most statements.
    if not any(f"{parent}." in statement.text for parent in parents):
        return statement
    top = first_line(statement.node) - 1
    rows = list(lines[top : top + statement.text.count("\n")])
    if "".join(rows) != statement.text:  # It stands on the line of its `def`.
        return statement
    edits: list[_Edit] = []
    for node in ast.walk(statement.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner)) if (
                owner.lineno == owner.end_lineno
                # Blanks may stand around the dots of a name.
                and re.sub(r"\s", "", slice_of(lines, owner)) in parents
            ):
                line, start = position_of(owner)
                end = owner.end_col_offset or 0
                edits.append((line, start, line, end, "super()"))
                edits += _without_self(node)
    # From the last edit to the first, so that the columns of the others stay true.
    for line, start, last_line, end, text in sorted(edits, reverse=True):
        first = line - top - 1
        last = last_line - top - 1
        first_row = rows[first]
        before = first_row[: column_of(first_row, start)]
        last_row = rows[last]
        behind = last_row[column_of(last_row, end) :]
        rows[first : last + 1] = [before + text + behind]
    return replace(statement, text="".join(rows))


def _without_self(call: ast.Call) -> list[_Edit]:
    """The edit that removes a leading `self`, up to the next argument."""
    match call.args:
        case [ast.Name("self") as receiver, *others]:
            # The position of `**kwargs` is that of its stars.
            nodes: list[ast.expr | ast.keyword] = [*others, *call.keywords]
            end = (receiver.end_lineno or 0, receiver.end_col_offset or 0)
            end = min(map(position_of, nodes), default=end)
            start = position_of(receiver)
            return [(*start, *end, "")]
    return []
