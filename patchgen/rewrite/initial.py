"""An `__init__` with the parent's written out in it: the child's `self.x = v` takes the place of the parent's.

This is the one rule that departs from Python on purpose: the parent's value, which the child throws away, is not made
at all.  It holds only where nothing else could tell but the random numbers that its making would draw: `v` reads
nothing that is not final at that place, and no statement between the two reads `self.x`.  Otherwise both assignments
stay, in Python's order.  `del self.x` removes the parent's assignment by the same rule.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.rewrite.apart import names_in
from patchgen.rewrite.fragment import Fragment, fragment
from patchgen.rewrite.instance import Instance, assigned, assignment, deleted, is_quiet, may_set, reads
from patchgen.rewrite.suite import owns_lines
from patchgen.source.blocks import first_line
from patchgen.source.scopes import bound_names

_ASSIGNING = frozenset({"__setattr__", "__delattr__", "__getattribute__"})


@dataclass(frozen=True, slots=True)
class _Item:
    """A statement of the body with the comments above it; `theirs`: the parent wrote it."""

    node: ast.stmt
    text: str
    theirs: bool


def settle(text: str, number: int, count: int, this: Instance) -> str:
    """`text`, a method, in whose body `count` statements from `number` on are the parent's, with the rule applied."""
    code = fragment(text)
    method = code.nodes[0]
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    body = method.body
    own_lines = all(owns_lines(code, body, place, place + 1) for place in range(number, len(body)))
    if not count or not own_lines or _ASSIGNING & this.special:
        return text
    items = _items(code, body, number, count)
    settled = items
    for item in items:
        if not item.theirs:
            settled = _placed(settled, item, body[:number], this)
    if settled == items or not (settled or body[:number]):
        return text
    start = code.line_span(1, (body[number - 1].end_lineno or 0) if number else first_line(body[0]) - 1)[1]
    end = code.line_span(1, body[-1].end_lineno or 0)[1]
    return text[:start] + "".join(item.text for item in settled) + text[end:]


def _items(code: Fragment, body: Sequence[ast.stmt], number: int, count: int) -> tuple[_Item, ...]:
    items = []
    for place in range(number, len(body)):
        node = body[place]
        above = (body[place - 1].end_lineno or 0) if place else first_line(node) - 1
        start, end = code.line_span(above + 1, node.end_lineno or 0)
        items.append(_Item(node, code.text[start:end], place < number + count))
    return tuple(items)


def _placed(items: tuple[_Item, ...], item: _Item, head: Sequence[ast.stmt], this: Instance) -> tuple[_Item, ...]:
    """The items with `item` in the place of the parent's assignment, or as they are where that could be noticed."""
    name, value = assignment(item.node, this)
    wanted = name or deleted(item.node, this)
    here = items.index(item)
    place = _parents_assignment(items[:here], wanted, this) if wanted else None
    if not wanted or place is None:
        return items
    between = [other.node for other in items[place + 1 : here]]
    if any(reads(node, wanted, this) for node in between):
        return items
    if value is None:
        earlier = [*head, *(other.node for other in items[:place])]
        leaves_it = any(may_set(node, wanted, this) for node in earlier)
        return items if leaves_it else _without(items, {place, here})
    if reads(value, wanted, this) or not _is_final(value, [items[place].node, *between], this):
        return items
    if between and not is_quiet(value):
        return items
    return (*items[:place], item, *items[place + 1 : here], *items[here + 1 :])


def _parents_assignment(items: Sequence[_Item], name: str, this: Instance) -> int | None:
    """The place of the one statement of the parent that sets `self.name`, if it is plain and leaves no trace."""
    places = [number for number, item in enumerate(items) if name in assigned(item.node, this.name)]
    if len(places) != 1 or name in this.special:
        return None
    item = items[places[0]]
    found, old = assignment(item.node, this)
    plain = item.theirs and found == name and old is not None and is_quiet(old)
    return places[0] if plain else None


def _without(items: tuple[_Item, ...], places: set[int]) -> tuple[_Item, ...]:
    return tuple(item for number, item in enumerate(items) if number not in places)


def _is_final(value: ast.expr, between: Sequence[ast.stmt], this: Instance) -> bool:
    """Whether all that `value` reads has its last value already before the statements `between`."""
    names = names_in([value])
    attributes = {
        node.attr
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == this.name
    }
    if reads(value, "", this) or attributes & this.special:
        return False
    return not any(
        set(bound_names([node])) & names
        or assigned(node, this.name) & attributes
        or _changes_object(node, names - {this.name})
        for node in between
    )


def _changes_object(node: ast.stmt, names: frozenset[str]) -> bool:
    """Whether `node` stores into one of the objects `names`, or is a call on one."""
    for child in ast.walk(node):
        match child:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del(), value=inner)
                | ast.Subscript(ctx=ast.Store() | ast.Del(), value=inner)
            ):
                if names_in([inner]) & names:
                    return True
            case ast.Expr(value=ast.Call() as call):
                if names_in([call.func]) & names:
                    return True
            case _:
                pass
    return False
