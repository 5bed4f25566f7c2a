"""Decide about `use_experts_implementation`, which wraps `forward` and `__init__` of its class.

    @use_experts_implementation
    class Parent: ...                       # its forward is wrapped
    class Child(Parent):
        def forward(self, x): ...           # this one is not: the flat class drops the decorator

The wrapped `__init__` sets attributes after the class's own.  The wrapped `forward` calls the
implementation that the configuration names, unless that is "eager".  A class derived from the
decorated one inherits both, but an override of `forward` is not wrapped.  So the flat class keeps
the decorator unless it has a `forward` of its own, and then must not use what the decorator sets.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.classes.assigned import find_assigned
from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.fragment import parse_fragment
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.merge.self_uses import calls_inherited
from patchgen.compiler.supers.supercall import find_methods, first_parameter
from patchgen.facts.decorators import SET_BY_EXPERTS
from patchgen.syntax.bound import FunctionNode


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the decorator can neither stay nor go, and what to write."""

    why: str
    hint: str


def find_refusal(
    bodies: Sequence[ClassBody],
    place: int,
    changed: frozenset[str],
    order: Sequence[Statement],
    restated: bool,
) -> Refusal | None:
    """Why the decorator of the class at `place` can neither stay nor go; None where it can.

    `restated`: the child has the decorator too.
    """
    if _calls_wrapped_forward(bodies[:place]):
        why = "and super().forward means the forward that it wraps"
        return Refusal(why, "write out what the parent's forward does")
    if "forward" in changed and not restated:
        return _refuse_missed(bodies[0].own_name, order)
    # From here on, the decorator stays, and wraps the `__init__` of the flat class.
    if "__init__" not in changed:
        return None
    if any(_mentions(body) for body in bodies[:place]):
        why = "which sets attributes after __init__ that the child's __init__ uses"
        return Refusal(why, "give the child's attribute another name")
    if not _passes_config(bodies[: place + 1]):
        why = "whose __init__ takes the configuration first, and the child's takes something else"
        return Refusal(why, "take the same first argument under the same name")
    return None


def _calls_wrapped_forward(nearer: Sequence[ClassBody]) -> bool:
    """Whether an override of `forward` calls the one that the decorator wraps."""
    # Only overrides of nearer classes replace the decorated forward.
    for body in nearer:
        for statement in body.binders("forward"):
            if calls_inherited(statement.node, "forward"):
                return True
    return False


def _refuse_missed(own_name: str, order: Sequence[Statement]) -> Refusal | None:
    """The refusal where the class reads what the decorator would set."""
    bound: set[str] = set()
    for statement in order:
        bound.update(statement.names)
    # Without the decorator, nothing would set these.
    missed = sorted(_find_read(order) - bound - _find_set(order))
    if not missed:
        return None
    why = f"which sets {missed[0]}; the class has its own forward and may still need that"
    hint = f"decorate {own_name} with it too, or set {missed[0]} in __init__"
    return Refusal(why, hint)


def _find_read(order: Sequence[Statement]) -> set[str]:
    """The decorator's attributes that the class reads; all where it hands its object on."""
    found: set[str] = set()
    for statement in order:
        for method in find_methods(parse_fragment(statement.text).nodes[0]):
            found |= _find_read_in(method)
    return found


def _find_read_in(method: FunctionNode) -> set[str]:
    """The same for one method."""
    receiver = first_parameter(method)
    found: set[str] = set()
    attributes = [node for node in ast.walk(method) if isinstance(node, ast.Attribute)]
    for attribute in attributes:
        match attribute:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()):
                if owner == receiver:
                    found |= {name} & SET_BY_EXPERTS
    held = {id(node.value) for node in attributes}
    for node in ast.walk(method):
        # `helper(self)` may read any of them.
        if isinstance(node, ast.Name) and node.id == receiver and id(node) not in held:
            return set(SET_BY_EXPERTS)
    return found


def _find_set(order: Sequence[Statement]) -> set[str]:
    """Every attribute that a method of the class sets."""
    found: set[str] = set()
    for statement in order:
        for method in find_methods(statement.node):
            # Without a receiver nothing is set: no name is empty.
            found |= find_assigned(method, first_parameter(method) or "")
    return found


def _mentions(body: ClassBody) -> bool:
    """Whether `__init__` uses a name that the decorator sets."""
    for statement in body.binders("__init__"):
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Attribute) and node.attr in SET_BY_EXPERTS:
                return True
    return False


def _passes_config(bodies: Sequence[ClassBody]) -> bool:
    """Whether the first argument has the same name in every `__init__`."""
    firsts = set()
    for body in bodies:
        for statement in body.binders("__init__"):
            firsts.add(_find_first_argument(statement.node))
    return len(firsts) == 1


def _find_first_argument(node: ast.stmt) -> str | None:
    """What a method calls its first parameter behind the object; None where it has none."""
    if not isinstance(node, ast.FunctionDef) or len(node.args.args) < 2:
        return None
    return node.args.args[1].arg
