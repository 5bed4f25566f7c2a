"""Which classes of a chain a class of it inherits from, so that `Parent.name` can be followed.

`super()` looks along the whole chain; `Parent.name` looks along the parent's own bases only.  C3 keeps the order of
every class's own bases, so these stand in the chain in the order in which Python searches them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.plan.model import ClassPlan


def search_places(bodies: Sequence[ClassBody], start: int) -> tuple[int, ...]:
    """The places of the class at `start` and of its bases in the chain, in the order of the search."""
    found = {start}
    for place in range(start, len(bodies)):
        if place in found:
            found.update(_places(bodies, place).values())
    return tuple(sorted(found))


def find_outer_base(plan: ClassPlan, bodies: Sequence[ClassBody], start: int) -> str | None:
    """The one class outside the chain that the class at `start` inherits from; None when there are several."""
    outside = {
        ast.unparse(base)
        for place in search_places(bodies, start)
        for base in bodies[place].node.bases
        if _short(base) not in _places(bodies, place)
    }
    if not outside:
        return "object"
    return next(iter(outside)) if len(outside) == 1 and outside <= set(plan.bases) else None


def _places(bodies: Sequence[ClassBody], place: int) -> dict[str, int]:
    """The bases of a class that are in the chain, by name."""
    behind = range(len(bodies) - 1, place, -1)
    known = {
        name: other
        for other in behind
        for name in (bodies[other].own_name, bodies[other].block.name)
    }
    return {
        _short(base): known[_short(base)]
        for base in bodies[place].node.bases
        if _short(base) in known
    }


def _short(base: ast.expr) -> str:
    return ast.unparse(base).rpartition(".")[2]
