"""An `__init__` with the parent's written out in it: the child's `self.x = v` takes the place of the parent's.

This is the one rule that departs from Python on purpose: the parent's value, which the child throws away, is not made
at all.  It holds only where nothing else could tell: `v` reads nothing that is not final at that place, and no
statement between the two reads `self.x`.  Otherwise both assignments stay, in Python's order.  `del self.x` removes
the parent's assignment by the same rule.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.rewrite.classbody import ClassBody
from patchgen.rewrite.fragment import Fragment, fragment, owns_lines
from patchgen.rewrite.inline import names_in
from patchgen.source.blocks import first_line
from patchgen.source.scopes import bound_names

REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
# Ends the `__init__` of every model: initialises the weights that exist by then and reads no attribute by name.
FINISHES = frozenset({"post_init"})
ASSIGNING = frozenset({"__setattr__", "__delattr__", "__getattribute__"})
_LIBRARIES = frozenset({"F", "math", "nn", "torch"})
_FUNCTIONS = frozenset(
    {"abs", "bool", "dict", "float", "getattr", "int", "isinstance", "len", "list", "max", "min", "range", "round"}
    | {"set", "sorted", "str", "sum", "tuple", "zip"}
)


@dataclass(frozen=True, slots=True)
class _Item:
    """A statement of the body with the comments above it; `theirs`: the parent wrote it."""

    node: ast.stmt
    text: str
    theirs: bool


def settle(text: str, number: int, count: int, receiver: str, special: frozenset[str]) -> str:
    """`text`, a method, in whose body `count` statements from `number` on are the parent's.

    `special` are names that are no plain attributes; see `not_plain_attributes`.
    """
    code = fragment(text)
    method = code.nodes[0]
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    body = method.body
    if (
        not count
        or ASSIGNING & special
        or not all(owns_lines(code, body, place, place + 1) for place in range(number, len(body)))
    ):
        return text
    items = _items(code, body, number, count)
    before = {name for node in body[:number] for name in assigned(node, receiver)}
    settled = items
    for item in items:
        if not item.theirs:
            settled = _placed(settled, item, receiver, before, special)
    if settled == items:
        return text
    if not settled and not body[:number]:
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


def _placed(
    items: tuple[_Item, ...], item: _Item, receiver: str, before: set[str], special: frozenset[str]
) -> tuple[_Item, ...]:
    name, value = _assignment(item.node, receiver)
    deleted = _deleted(item.node, receiver)
    wanted = name or deleted
    if not wanted or wanted in special:
        return items
    places = [i for i, other in enumerate(items) if wanted in assigned(other.node, receiver) and other.theirs]
    here = items.index(item)
    if len(places) != 1 or places[0] > here:
        return items
    place = places[0]
    found, old = _assignment(items[place].node, receiver)
    if found != wanted or old is None or not is_quiet(old):
        return items
    between = [other.node for other in items[place + 1 : here]]
    if any(_reads(node, wanted, receiver) for node in between):
        return items
    if deleted:
        return items if wanted in before or _binds(items[place].node) else _without(items, {place, here})
    assert value is not None
    if _reads(value, wanted, receiver) or not _is_final(value, [items[place].node, *between], receiver, special):
        return items
    if between and not is_quiet(value):
        return items
    moved = [*items[:place], item, *items[place + 1 : here], *items[here + 1 :]]
    return tuple(moved)


def _without(items: tuple[_Item, ...], places: set[int]) -> tuple[_Item, ...]:
    return tuple(item for number, item in enumerate(items) if number not in places)


def _binds(node: ast.stmt) -> bool:
    return any(True for _ in bound_names([node]))


def _assignment(node: ast.stmt, receiver: str) -> tuple[str | None, ast.expr | None]:
    """x and v of a plain `self.x = v`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)], value=value):
            pass
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=name), value=ast.expr() as value):
            pass
        case _:
            return None, None
    return (name, value) if owner == receiver else (None, None)


def _deleted(node: ast.stmt, receiver: str) -> str | None:
    match node:
        case ast.Delete(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)]) if owner == receiver:
            return name
        case _:
            return None


def deletions(method: ast.FunctionDef | ast.AsyncFunctionDef, receiver: str) -> list[tuple[ast.stmt, str]]:
    """Each `del self.x` at the top of the method's body."""
    return [(node, name) for node in method.body if (name := _deleted(node, receiver))]


def assigned(node: ast.AST, receiver: str) -> frozenset[str]:
    """The attributes of the object that `node` assigns, deletes or registers."""
    found = set()
    for child in ast.walk(node):
        match child:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Store() | ast.Del()) if owner == receiver:
                found.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr=called), args=[ast.Constant(value=str(name)), *_]
            ) if owner == receiver and called in REGISTERS:
                found.add(name)
            case ast.Call(
                func=ast.Name(id="setattr"), args=[ast.Name(id=owner), ast.Constant(value=str(name)), *_]
            ) if owner == receiver:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def _reads(node: ast.AST, name: str, receiver: str) -> bool:
    """Whether `node` reads `self.name`, or hands `self` to code that might."""
    parents = {id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id == "super":
            return True
        if not (isinstance(child, ast.Name) and child.id == receiver):
            continue
        holder = parents.get(id(child))
        if not isinstance(holder, ast.Attribute):
            return True
        outer = parents.get(id(holder))
        if isinstance(outer, ast.AugAssign) and outer.target is holder and holder.attr == name:
            return True
        if isinstance(outer, ast.Call) and outer.func is holder and not _is_harmless(outer, holder.attr):
            return True
        if holder.attr == name and isinstance(holder.ctx, ast.Load):
            return True
    return False


def _is_harmless(call: ast.Call, method: str) -> bool:
    named = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return method in FINISHES or (method in REGISTERS and named)


def _is_final(value: ast.expr, between: Sequence[ast.stmt], receiver: str, special: frozenset[str]) -> bool:
    """Whether all that `value` reads has its last value already before the statements `between`."""
    names = names_in([value])
    own = [n for n in ast.walk(value) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    attributes = {node.attr for node in own if isinstance(node.value, ast.Name) and node.value.id == receiver}
    if _reads(value, "", receiver) or attributes & special:
        return False
    for node in between:
        if set(bound_names([node])) & names or assigned(node, receiver) & attributes:
            return False
        if _changes_object(node, names - {receiver}):
            return False
    return True


def is_quiet(value: ast.expr) -> bool:
    """Whether making `value` changes nothing else but random numbers: constructors, torch and arithmetic alone."""
    for node in ast.walk(value):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Call) and not _is_constructor(node.func):
            return False
    return True


def _is_constructor(called: ast.expr) -> bool:
    parts = ast.unparse(called).split(".")
    is_class = parts[-1].lstrip("_")[:1].isupper() and all(part.isidentifier() for part in parts)
    return is_class or parts[0] in _LIBRARIES or (len(parts) == 1 and parts[0] in _FUNCTIONS)


def not_plain_attributes(bodies: Sequence[ClassBody]) -> frozenset[str]:
    """Names of the chain that may do more than hold a value when they are set or read: methods, properties."""
    found: set[str] = set()
    for body in bodies:
        for statement in body.statements:
            match statement.node:
                case ast.Assign(value=value) | ast.AnnAssign(value=value) if value is None or _is_literal(value):
                    pass
                case _:
                    found.update(statement.names)
    return frozenset(found)


def _is_literal(value: ast.expr) -> bool:
    return all(
        isinstance(n, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.expr_context) for n in ast.walk(value)
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
