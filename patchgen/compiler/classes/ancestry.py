"""Find which classes of a chain a class of it inherits from, so that `Parent.name` can be followed.

`super()` searches the whole chain; `Parent.name` searches the parent's own bases only.  C3 keeps
the order of every class's own bases, so these stand in the chain in the order in which Python
searches them.

    class Left(Top): ...
    class Right(Top): ...
    class Child(Left, Right):           chain: Child, Left, Right, Top
        def f(self):
            super().f()                 searches Left, Right, Top
            Left.f(self)                searches Left and Top
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.plan.model import ClassPlan


def search_places(bodies: Sequence[ClassBody], start: int) -> tuple[int, ...]:
    """The places in the chain of the class at `start` and of its bases, in search order."""
    found = {start}
    # The bases of a class stand behind it in the chain.
    for place in range(start, len(bodies)):
        if place in found:
            found.update(_find_places(bodies, place).values())
    return tuple(sorted(found))


def find_outer_base(plan: ClassPlan, bodies: Sequence[ClassBody], start: int) -> str | None:
    """The one class outside the chain that the class at `start` inherits from.

    None when there are several.
    """
    outside: set[str] = set()
    for place in search_places(bodies, start):
        inside = _find_places(bodies, place)
        for base in bodies[place].node.bases:
            if _short(base) not in inside:
                outside.add(ast.unparse(base))
    if not outside:
        return "object"
    if len(outside) == 1 and outside <= set(plan.bases):
        return outside.pop()
    return None


def _find_places(bodies: Sequence[ClassBody], place: int) -> dict[str, int]:
    """The bases of a class that are in the chain, by name."""
    known: dict[str, int] = {}
    # From the end, so that of two classes of one name the nearest counts.
    for other in range(len(bodies) - 1, place, -1):
        known[bodies[other].own_name] = other
        known[bodies[other].block.name] = other
    names = [_short(base) for base in bodies[place].node.bases]
    return {name: known[name] for name in names if name in known}


def _short(base: ast.expr) -> str:
    """The name of a base, whatever module it is reached by."""
    return ast.unparse(base).rpartition(".")[2]
