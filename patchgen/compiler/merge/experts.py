"""`use_experts_implementation`, which wraps `forward` and `__init__` of the class that it stands on.

Its `__init__` sets attributes after the class's own; its `forward` hands over to the implementation that the
configuration names, unless that is "eager".  A class derived from the decorated one inherits both, and an override of
`forward` is not wrapped.  So the flat class keeps the decorator unless it has a `forward` of its own, and then must do
without what the decorator sets.
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

SETS = frozenset(
    {
        "config",
        "has_bias",
        "has_gate",
        "has_post_expert_norm",
        "is_concatenated",
        "is_transposed",
        "_apply_gate",
        "_is_expert_parallel",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the decorator can neither stay nor go, and what to write."""

    why: str
    hint: str


def refusal(
    bodies: Sequence[ClassBody],
    place: int,
    changed: frozenset[str],
    order: Sequence[Statement],
    restated: bool,
) -> Refusal | None:
    """What stands in the way of the decorator of the class at `place`; `restated`: the child has it too."""
    forwards = [statement.node for body in bodies[:place] for statement in body.binders("forward")]
    if any(calls_inherited(forward, "forward") for forward in forwards):
        why = "and super().forward means the forward that it wraps"
        return Refusal(why, "write out what the parent's forward does")
    if "forward" in changed and not restated:
        missed = sorted(_read(order) - {name for s in order for name in s.names} - _assigned(order))
        if not missed:
            return None
        why = f"which sets {missed[0]}; the class has its own forward and may still need that"
        return Refusal(
            why, f"decorate {bodies[0].own_name} with it too, or set {missed[0]} in __init__"
        )
    if "__init__" in changed and any(_mentions(body) for body in bodies[:place]):
        why = "which sets attributes after __init__ that the child's __init__ uses"
        return Refusal(why, "give the child's attribute another name")
    if "__init__" in changed and not _passes_config(bodies[: place + 1]):
        why = "whose __init__ takes the configuration first, and the child's takes something else"
        return Refusal(why, "take the same first argument under the same name")
    return None


def _read(order: Sequence[Statement]) -> set[str]:
    """Attributes of the decorator that the class reads of its object; all of them where it hands its object on."""
    found: set[str] = set()
    for statement in order:
        for method in find_methods(parse_fragment(statement.text).nodes[0]):
            receiver = first_parameter(method)
            held = {id(n.value) for n in ast.walk(method) if isinstance(n, ast.Attribute)}
            for node in ast.walk(method):
                match node:
                    case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()) if (
                        owner == receiver
                    ):
                        found |= {name} & SETS
                    case ast.Name(id=owner) if owner == receiver and id(node) not in held:
                        found |= SETS
                    case _:
                        pass
    return found


def _assigned(order: Sequence[Statement]) -> set[str]:
    found: set[str] = set()
    for statement in order:
        for method in find_methods(statement.node):
            found |= find_assigned(method, first_parameter(method) or "")
    return found


def _mentions(body: ClassBody) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in SETS
        for statement in body.binders("__init__")
        for node in ast.walk(statement.node)
    )


def _passes_config(bodies: Sequence[ClassBody]) -> bool:
    """Whether every `__init__` takes what the decorated one takes first, under the same name."""
    firsts = set()
    for body in bodies:
        for statement in body.binders("__init__"):
            node = statement.node
            arguments = node.args.args if isinstance(node, ast.FunctionDef) else []
            firsts.add(arguments[1].arg if len(arguments) > 1 else None)
    return len(firsts) == 1
