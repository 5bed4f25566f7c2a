"""Find what a class of the chain removes from its parents, as transformers' modular files write it.

    def prune_heads(self, heads):           scale = AttributeError()
        raise AttributeError("unused")

A method whose body is only `raise AttributeError(...)`, below its docstring if it has one, and a
class attribute `name = AttributeError()` remove the inherited member.  Python's inheritance would
keep a member that raises or is an exception: this is a deliberate difference.  An attribute of a
base outside the chain shows through; what bases have is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.plan.intent import removed_name
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean


@dataclass(frozen=True, slots=True)
class Removals:
    """The chain with its removals marked, and a problem for each that removes nothing."""

    bodies: tuple[ClassBody, ...]
    problems: tuple[Problem, ...]


def mark_removals(bodies: Sequence[ClassBody]) -> Removals:
    """Mark the statements that remove what a later class of the chain binds."""
    done: list[ClassBody] = []
    problems: list[Problem] = []
    for place, body in enumerate(bodies[:-1]):
        known: set[str] = set()
        for other in bodies[place + 1 :]:
            known |= other.names
        statements = []
        for statement in body.statements:
            name = removed_name(statement.node)
            # Only what a merged class binds can be left out.
            statements.append(replace(statement, removes=name in known))
            if name is None:
                continue
            # A part may remove what only some models have.
            is_declared = place == 0
            if is_declared and name not in known:
                what = f"{name} is removed, but no class that {body.own_name} is merged with has it"
                hint = did_you_mean(name, known) or "what a base outside has cannot be removed"
                problems.append(PatchgenError("PG230", body.at(statement), what, hint).problem)
            problems += _find_other_claims(body, statement, name)
        done.append(replace(body, statements=tuple(statements)))
    # The last class of the chain has nothing to remove: its statement is an exception.
    return Removals((*done, bodies[-1]), tuple(problems))


def find_remaining(bodies: Sequence[ClassBody], order: Sequence[Statement]) -> Iterator[Problem]:
    """Removals of what the class body `order` still binds, because it needs the statement."""
    for place, body in enumerate(bodies):
        for removal in body.statements:
            if not removal.removes:
                continue
            name = removal.names[0]
            left = [s for s in order if s.origin > place and name in s.names]
            if left:
                owner = bodies[left[0].origin]
                what = (
                    f"{name} cannot be removed alone: "
                    f"{owner.own_name} binds it together with something else"
                )
                hint = "override what is bound with it"
                yield PatchgenError("PG230", body.at(removal), what, hint).problem


def _find_other_claims(body: ClassBody, removal: Statement, name: str) -> Iterator[Problem]:
    """The other statements of the class that bind what it removes."""
    for other in body.binders(name):
        if other.key != removal.key:
            what = f"{name} is removed here and bound on line {body.at(other).line}"
            yield PatchgenError("PG303", body.at(removal), what, "keep one of them").problem
