"""Names that Python itself reads from a class body: `__slots__`, `__hash__`, `__init_subclass__`.

In: the classes of the chain.  Out: the same, so that merged bodies mean what the separate ones meant, and problems
where they cannot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import INDENT
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.merge.private import is_private
from patchgen.errors import PatchgenError, Problem


@dataclass(frozen=True, slots=True)
class Specials:
    """The chain with its special names settled."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def settle_specials(bodies: tuple[ClassBody, ...], flat: str) -> Specials:
    """Union `__slots__`, write out the `__hash__` that `__eq__` takes away, refuse what ran when a parent was made."""
    problems = [*_ran_for_the_child(bodies), *(_bound_otherwise(bodies) if len(bodies) > 1 else ())]
    hashed = tuple(_without_hash(body, bodies[place + 1 :]) for place, body in enumerate(bodies))
    if not any("__slots__" in body.names for body in bodies):
        return Specials(hashed, tuple(problems))
    slots = _union(bodies, flat)
    if isinstance(slots, Problem):
        return Specials(hashed, (*problems, slots))
    text = f"{INDENT}__slots__ = ({', '.join(map(repr, slots))}{',' if len(slots) == 1 else ''})\n"
    first = hashed[0]
    statements = tuple(s.with_text(text) if "__slots__" in s.names else s for s in first.statements)
    return Specials((replace(first, statements=statements), *hashed[1:]), tuple(problems))


def _bound_otherwise(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    """Class bodies that take a name out of their own namespace, which a parent has, or bind a global one."""
    for place, body in enumerate(bodies):
        inherited = {name for other in bodies[place + 1 :] for name in other.members}
        for statement in body.statements:
            lost = sorted(set(statement.names) & body.deleted & inherited)
            if isinstance(statement.node, ast.Delete) and lost:
                what = f"{lost[0]} is deleted in the class body, where the parent's {lost[0]} would be meant too"
                yield PatchgenError(
                    "PG202", body.at(statement), what, "give it another name"
                ).problem
            if isinstance(statement.node, ast.Global):
                what = "a class body that binds global names cannot be merged"
                yield PatchgenError(
                    "PG202", body.at(statement), what, "bind them at module level"
                ).problem


def _ran_for_the_child(bodies: Sequence[ClassBody]) -> Iterator[Problem]:
    for body in bodies[1:]:
        for statement in body.binders("__init_subclass__"):
            what = f"{body.own_name}.__init_subclass__ runs when its child is made, and would not any more"
            hint = "write what it does in the child, or keep the parent as an imported base"
            yield PatchgenError("PG222", body.at(statement), what, hint).problem


def _without_hash(body: ClassBody, behind: Sequence[ClassBody]) -> ClassBody:
    """Python sets `__hash__` to None in a class that has `__eq__` alone: so it must be where a parent has a hash."""
    inherited = any("__hash__" in other.names for other in behind)
    if not inherited or "__hash__" in body.names or "__eq__" not in body.names:
        return body
    eq = body.binders("__eq__")[-1]
    text = f"{INDENT}__hash__ = None\n"
    statement = Statement(
        "\n", text, ("__hash__",), eq.origin, len(body.statements), eq.line, changed=True
    )
    return replace(body, statements=(*body.statements, statement))


def _union(bodies: Sequence[ClassBody], flat: str) -> tuple[str, ...] | Problem:
    found: list[str] = []
    for body in bodies:
        binders = body.binders("__slots__")
        slots = _literal(binders[0].node) if len(binders) == 1 else None
        if slots is None:
            at = body.at(binders[0]) if binders else body.at_head()
            what = f"{body.own_name} has no literal __slots__, but another class that is merged has"
            return PatchgenError(
                "PG240", at, what, "write __slots__ as a tuple of strings in both, or in none"
            ).problem
        own = body.own_name.lstrip("_")
        mangles = own != flat.lstrip("_") and own
        found += [f"_{own}{name}" if mangles and is_private(name) else name for name in slots]
    clash = sorted(set(found) & {name for body in bodies for name in body.names})
    if clash:
        what = f"{clash[0]} is a slot of one class and an attribute of another"
        return PatchgenError("PG240", bodies[0].at_head(), what, "set it in __init__").problem
    return tuple(dict.fromkeys(found))


def _literal(node: ast.stmt) -> tuple[str, ...] | None:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    try:
        value = ast.literal_eval(node.value)
    except ValueError:
        return None
    names = (value,) if isinstance(value, str) else value
    is_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_names else None
