"""What a class of the chain takes away from its parents, as the modular files of transformers write it.

A method whose body is only `raise AttributeError(...)`, below a docstring if there is one, and a class attribute
`name = AttributeError()` remove the inherited member.  Python's inheritance would keep a member that raises, or is an
exception: this departs from it on purpose.  What a base outside the chain has shows through; it is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.intent import removed_name
from patchgen.errors import PatchgenError, Problem, did_you_mean


@dataclass(frozen=True, slots=True)
class Removals:
    """The chain with its removals marked, and those that remove nothing."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def mark_removals(bodies: Sequence[ClassBody]) -> Removals:
    """Mark the statements that remove what a later class of the chain binds."""
    done: list[ClassBody] = []
    problems: list[Problem] = []
    for place, body in enumerate(bodies):
        behind = bodies[place + 1 :]
        known = {name for other in behind for name in other.names}
        statements = []
        for statement in body.statements:
            name = removed_name(statement.node) if behind else None
            statements.append(replace(statement, removes=name is not None and name in known))
            if name is None:
                continue
            if name not in known and place == 0:
                what = f"{name} is removed, but no class that {body.own_name} is merged with has it"
                hint = did_you_mean(name, known) or "what a base outside has cannot be removed"
                problems.append(PatchgenError("PG230", body.at(statement), what, hint).problem)
            problems += _claims(body, statement, name)
        done.append(replace(body, statements=tuple(statements)))
    return Removals(tuple(done), tuple(problems))


def find_remaining(bodies: Sequence[ClassBody], order: Sequence[Statement]) -> Iterator[Problem]:
    """Removals of what the class body `order` binds all the same, because it needs the statement."""
    for place, body in enumerate(bodies):
        for statement in body.statements:
            left = [
                s
                for s in order
                if statement.removes and s.origin > place and statement.names[0] in s.names
            ]
            if left:
                name, owner = statement.names[0], bodies[left[0].origin]
                what = f"{name} cannot be removed alone: {owner.own_name} binds it together with something else"
                yield PatchgenError(
                    "PG230", body.at(statement), what, "override what is bound with it"
                ).problem


def _claims(body: ClassBody, removal: Statement, name: str) -> list[Problem]:
    """The other statements of the class that bind what it removes."""
    others = [statement for statement in body.binders(name) if statement.key != removal.key]
    at = body.at(removal)
    what = f"{name} is removed here and bound on line {{}}"
    return [
        PatchgenError("PG303", at, what.format(body.at(other).line), "keep one of them").problem
        for other in others
    ]
