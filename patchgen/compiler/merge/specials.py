"""Settle the names that Python itself reads from a class body: `__slots__`, `__hash__` and others.

In: the classes of the chain.  Out: the same classes, changed so that the merged body means what the
separate ones meant, and problems where that is not possible.

    class Parent:                       class Flat:
        __slots__ = ("a",)                  __slots__ = ("b", "a")
    class Child(Parent):
        __slots__ = ("b",)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import INDENT
from patchgen.compiler.classes.statement import Statement
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.reads import mangle


@dataclass(frozen=True, slots=True)
class Specials:
    """The chain with its special names settled, and the problems found on the way."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def settle_specials(bodies: tuple[ClassBody, ...], flat: str) -> Specials:
    """Unite `__slots__`, write out `__hash__ = None`, refuse what ran when a parent was made."""
    problems = list(_find_subclass_hooks(bodies))
    # A class that is not merged may do what Python allows.
    if len(bodies) > 1:
        problems += _find_deleted_names(bodies)
    hashed = [_write_out_hash(body, bodies[place + 1 :]) for place, body in enumerate(bodies)]
    if not any("__slots__" in body.names for body in bodies):
        return Specials(tuple(hashed), tuple(problems))
    slots = _unite_slots(bodies, flat)
    # The other problems are reported together with this one.
    if isinstance(slots, Problem):
        return Specials(tuple(hashed), (*problems, slots))
    first, *others = hashed
    return Specials((_write_slots(first, slots), *others), tuple(problems))


def _write_slots(body: ClassBody, slots: Sequence[str]) -> ClassBody:
    """`body` with these `__slots__`; those of the parents are overridden by it."""
    comma = "," if len(slots) == 1 else ""
    text = f"{INDENT}__slots__ = ({', '.join(map(repr, slots))}{comma})\n"
    statements = []
    for statement in body.statements:
        is_slots = "__slots__" in statement.names
        statements.append(statement.with_text(text) if is_slots else statement)
    return replace(body, statements=tuple(statements))


def _find_deleted_names(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """Class bodies that delete a name which a parent has, or that bind a global name."""
    for place, body in enumerate(bodies):
        inherited: set[str] = set()
        for other in bodies[place + 1 :]:
            inherited |= other.members
        for statement in body.statements:
            if isinstance(statement.node, ast.Global):
                what = "a class body that binds global names cannot be merged"
                hint = "bind them at module level"
                yield PatchgenError("PG202", body.at(statement), what, hint).problem
            if not isinstance(statement.node, ast.Delete):
                continue
            lost = sorted(set(statement.names) & body.deleted & inherited)
            if lost:
                what = (
                    f"{lost[0]} is deleted in the class body, "
                    f"where the parent's {lost[0]} would be meant too"
                )
                hint = "give it another name"
                yield PatchgenError("PG202", body.at(statement), what, hint).problem


def _find_subclass_hooks(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """A problem for each parent that runs code when a subclass is made."""
    for body in bodies[1:]:
        for statement in body.binders("__init_subclass__"):
            what = (
                f"{body.own_name}.__init_subclass__ runs when its child is made, "
                "and would not any more"
            )
            hint = "write what it does in the child, or keep the parent as an imported base"
            yield PatchgenError("PG222", body.at(statement), what, hint).problem


def _write_out_hash(body: ClassBody, behind: Sequence[ClassBody]) -> ClassBody:
    """Add `__hash__ = None` where Python sets it: in a class that has `__eq__` alone.

    Otherwise the flat class would have the hash of a parent.
    """
    is_inherited = any("__hash__" in other.names for other in behind)
    has_eq_alone = "__eq__" in body.names and "__hash__" not in body.names
    if not is_inherited or not has_eq_alone:
        return body
    eq = body.binders("__eq__")[-1]
    text = f"{INDENT}__hash__ = None\n"
    number = len(body.statements)
    added = Statement("\n", text, ("__hash__",), eq.origin, number, eq.line, changed=True)
    return replace(body, statements=(*body.statements, added))


def _unite_slots(bodies: Sequence[ClassBody], flat: str) -> tuple[str, ...] | Problem:
    """The slots of all classes, the child's first; a problem where they cannot be known."""
    found: dict[str, None] = {}
    bound: set[str] = set()
    for body in bodies:
        bound |= body.names
        binders = body.binders("__slots__")
        slots = None
        # Computed slots are not known here.
        if len(binders) == 1:
            slots = _read_literal(binders[0].node)
        if slots is None:
            at = body.at(binders[0]) if binders else body.at_head()
            what = f"{body.own_name} has no literal __slots__, but another class that is merged has"
            hint = "write __slots__ as a tuple of strings in both, or in none"
            return PatchgenError("PG240", at, what, hint).problem
        for name in slots:
            found[_mangle_slot(name, body.own_name, flat)] = None
    # Python refuses a slot that the class body also binds.
    clash = sorted(bound.intersection(found))
    if clash:
        what = f"{clash[0]} is a slot of one class and an attribute of another"
        return PatchgenError("PG240", bodies[0].at_head(), what, "set it in __init__").problem
    return tuple(found)


def _mangle_slot(name: str, own_name: str, flat: str) -> str:
    """`name` as Python mangles it in the class `own_name`, where `flat` would mangle otherwise."""
    # Leading underscores of the class do not count: `_Toy` and `Toy` mangle alike.
    if own_name.lstrip("_") == flat.lstrip("_"):
        return name
    return mangle(name, own_name)


def _read_literal(node: ast.stmt) -> tuple[str, ...] | None:
    """The strings that an assignment of `__slots__` lists."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    try:
        value = ast.literal_eval(node.value)
    except ValueError:
        return None
    # `__slots__ = "size"` is one slot.
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, tuple | list):
        return None
    if not all(isinstance(name, str) for name in value):
        return None
    return tuple(value)
