"""One class plan made into one flat class.

In: a `ClassPlan`, whose texts have the names of the flat file.  Out: the text of the class, and notes.  What Python's
inheritance would do is what the flat class does; where that cannot be had, the problems of the class are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchgen.errors import PatchgenError, Problem, Refusals
from patchgen.plan.model import ClassPlan, MergedClass
from patchgen.rewrite.classbody import ClassBody, Statement, class_body
from patchgen.rewrite.classscope import Key, changed_reads, written_order
from patchgen.rewrite.edits import apply_edits
from patchgen.rewrite.hoist import resolve_supers
from patchgen.rewrite.inline import is_placeholder
from patchgen.rewrite.members import lay, members
from patchgen.rewrite.signature import class_head

Trace = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Draft:
    """A class on its way: the classes of the chain, the merged body, and what has been found out."""

    plan: ClassPlan
    bodies: tuple[ClassBody, ...]
    order: tuple[Statement, ...] = ()
    changed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def found(self, *problems: Problem) -> Draft:
        """The draft with `problems` added."""
        return replace(self, problems=(*self.problems, *problems))


def lay_members(draft: Draft) -> Draft:
    """The child's members over the parents', from the last class of the chain to the first."""
    written = written_order(draft.bodies)
    after: frozenset[Key] = frozenset()
    while True:
        order: tuple[Statement, ...] = ()
        for body in reversed(draft.bodies):
            order = lay(body.statements, order, after) if order else body.statements
        changes = changed_reads(order, written)
        movable = {key for change in changes for key in _movable(draft, change.name, change.statement)} - after
        if not movable:
            break
        after |= movable
    problems = [_captured(draft, c.statement, c.name, c.merged) for c in changes]
    own = frozenset(name for body in draft.bodies[:-1] for name in body.names)
    changed = draft.changed | (own & frozenset(name for body in draft.bodies[1:] for name in body.names))
    return replace(draft, order=order, changed=changed).found(*problems)


def _movable(draft: Draft, name: str, reader: Statement) -> set[Key]:
    """The child's members that could come after the whole parent, so that `reader` finds the right `name`."""
    found = set()
    for body in draft.bodies[:-1]:
        for member in members(body.statements):
            if name in member.names or reader.key in {s.key for s in member.statements}:
                found.add(member.key)
    return found


def _captured(draft: Draft, reader: Statement, name: str, merged: Statement | None) -> Problem:
    body = draft.bodies[reader.origin]
    owner = draft.bodies[merged.origin].own_name if merged else "nothing"
    what = f"{name} would be read from {owner}'s class body, not from where {body.own_name} reads it"
    hint = "bind the value to another name at module level"
    return PatchgenError("PG201", body.at(reader), what, hint).problem


def resolve(draft: Draft) -> Draft:
    """Every `super()` that a class of the chain answers, inlined or hoisted."""
    resolved = resolve_supers(draft.plan, draft.bodies, draft.order)
    return replace(draft, order=resolved.statements).found(*resolved.problems)


def make_edits(draft: Draft) -> Draft:
    """The parents' methods with the edits of the chain made in them."""
    edited = apply_edits(draft.bodies)
    return replace(draft, bodies=edited.bodies, changed=draft.changed | edited.methods).found(*edited.problems)


PASSES: tuple[tuple[str, Callable[[Draft], Draft]], ...] = (
    ("edits", make_edits),
    ("members", lay_members),
    ("super", resolve),
)


def merge_class(plan: ClassPlan, trace: Trace | None = None) -> MergedClass:
    """The flat class of `plan`; `trace` is given (pass, class text) after each pass.

    Raises Refusals with every problem of the class.
    """
    bodies = tuple(
        class_body(piece, own, place)
        for place, (piece, own) in enumerate(zip(plan.chain, plan.own_names, strict=True))
    )
    draft = Draft(plan, bodies)
    for name, step in PASSES:
        draft = step(draft)
        if trace:
            trace(name, _written(draft).text)
        if draft.problems:
            raise Refusals(draft.problems)
    merged = _written(draft)
    return merged


def _written(draft: Draft) -> MergedClass:
    head = class_head(draft.plan, draft.bodies, draft.changed)
    if head.problems:
        raise Refusals(head.problems)
    body = _body_text(draft.bodies, draft.order)
    return MergedClass(draft.plan.name, head.text + body, (*draft.notes, *head.notes))


def _body_text(bodies: Sequence[ClassBody], order: Sequence[Statement]) -> str:
    docstrings = [body.docstring for body in bodies if body.docstring]
    kept = [s for s in order if len(bodies) == 1 or not is_placeholder(s.node)]
    every = [*docstrings[:1], *kept] or list(order[:1])
    text = "".join(statement.leading + statement.text for statement in every)
    return text + bodies[-1].tail
