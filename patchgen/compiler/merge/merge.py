"""Make one flat class of a class plan, in six passes.

In: a `ClassPlan`, whose texts have the names of the flat file.  Out: the text of the class, and
notes.  The flat class does what Python's inheritance does; where that is not possible, the problems
of the class are raised.

    class Parent(nn.Module):                class Flat(nn.Module):
        def forward(self, x):                   def forward(self, x):
            return self.act(x)                      return self.act(x)
    class Child(Parent):
        scale = 2                               scale = 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.classes.classbody import ClassBody, read_class_body
from patchgen.compiler.classes.fields import find_field_problems, read_fields
from patchgen.compiler.classes.fragment import INDENT
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.edits.edits import apply_edits
from patchgen.compiler.merge.classreads import write_out_literals
from patchgen.compiler.merge.classscope import (
    Key,
    find_changed_reads,
    find_movable,
    lay_over,
    read_written_order,
    report_capture,
)
from patchgen.compiler.merge.deletions import find_useless_deletions
from patchgen.compiler.merge.overrides import find_claimed_twice, find_missing_parameters
from patchgen.compiler.merge.private import write_out_private_names
from patchgen.compiler.merge.removal import find_remaining, mark_removals
from patchgen.compiler.merge.signature import make_class_head
from patchgen.compiler.merge.specials import settle_specials
from patchgen.compiler.plan.model import ClassPlan, EditMatch, MergedClass
from patchgen.compiler.supers.inline import is_placeholder
from patchgen.compiler.supers.resolve import resolve_supers
from patchgen.syntax.errors import PatchgenError, Problem, Refusals

Trace = Callable[[str, str], None]
Statements = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A class between two passes: the classes of the chain, the merged body, and what was found.

    `after` are members that come after the parents' (`members.lay`), `changed` the edited methods.
    """

    plan: ClassPlan
    bodies: tuple[ClassBody, ...]
    order: tuple[Statement, ...] = ()
    after: frozenset[Key] = frozenset()
    changed: frozenset[str] = frozenset()
    decorators: tuple[tuple[str, str], ...] = ()
    head: str = ""
    notes: tuple[str, ...] = ()
    edits: tuple[Callable[[], EditMatch], ...] = ()
    problems: tuple[Problem, ...] = ()

    def found(self, *problems: Problem) -> Draft:
        """The draft with `problems` added."""
        return replace(self, problems=(*self.problems, *problems))

    @property
    def text(self) -> str:
        """The class so far; before its members are merged, every class of the chain."""
        if self.order or len(self.bodies) == 1:
            return _class_text(self.head or f"class {self.plan.name}:\n", self.bodies, self.order)
        texts = [_class_text(f"{body.head}\n", [body], body.statements) for body in self.bodies]
        return "\n".join(texts)


def check_declaration(draft: Draft) -> Draft:
    """Check for members that the child defines twice, and mark those that it removes."""
    removals = mark_removals(draft.bodies)
    useless = find_useless_deletions(draft.bodies, draft.plan.bases)
    checked = replace(draft, bodies=removals.bodies).found(*removals.problems, *useless)
    # A class that is not merged keeps Python's behaviour, whatever it is.
    if len(draft.bodies) == 1:
        return checked
    return checked.found(*find_claimed_twice(draft.bodies[0]))


def make_edits(draft: Draft) -> Draft:
    """Make the edits of the chain in the parents' methods."""
    edited = apply_edits(draft.bodies)
    made = replace(draft, bodies=edited.bodies, changed=edited.methods, edits=edited.matches)
    return made.found(*edited.problems)


def settle_names(draft: Draft) -> Draft:
    """Settle reads of parents, the names that Python itself reads, and fields of dataclasses."""
    reads = write_out_literals(draft.bodies)
    specials = settle_specials(reads.bodies, draft.plan.name)
    fields = find_field_problems(specials.bodies, read_fields(draft.plan, specials.bodies))
    return replace(draft, bodies=specials.bodies).found(
        *reads.problems, *specials.problems, *fields
    )


def lay_members(draft: Draft) -> Draft:
    """Lay the child's members over the parents', from the last class of the chain to the first."""
    laid = _in_order(draft, lambda order: order)
    # Notes tell the author something, and refuse nothing.
    notes = tuple(find_missing_parameters(draft.bodies))
    return replace(laid, notes=notes).found(*find_remaining(laid.bodies, laid.order))


def resolve(draft: Draft) -> Draft:
    """Inline or hoist what every `super()` finds in a class of the chain."""
    problems: set[Problem] = set()

    def resolve_order(order: Statements) -> Statements:
        result = resolve_supers(draft.plan, draft.bodies, order)
        problems.update(result.problems)
        return result.statements

    return _in_order(draft, resolve_order).found(*problems)


def _in_order(draft: Draft, step: Callable[[Statements], Statements]) -> Draft:
    """Find an order of the members in which, after `step`, the class body reads what it read."""
    written = read_written_order(draft.bodies)
    after = draft.after
    while True:
        order = step(lay_over(draft.bodies, after))
        changes = find_changed_reads(order, written)
        more = find_movable(draft.bodies, changes) - after
        # Each round moves more members below the parents, so the loop ends.
        if not more:
            problems = [report_capture(draft.bodies, change) for change in changes]
            return replace(draft, order=order, after=after).found(*problems)
        after |= more


def write_head(draft: Draft) -> Draft:
    """Write the decorators, bases and keywords."""
    head = make_class_head(
        draft.plan, draft.bodies, draft.changed, draft.order, dict(draft.decorators)
    )
    return replace(draft, head=head.text, notes=(*draft.notes, *head.notes)).found(*head.problems)


PASSES: tuple[tuple[str, Callable[[Draft], Draft]], ...] = (
    ("declaration", check_declaration),
    ("edits", make_edits),
    ("names", settle_names),
    ("members", lay_members),
    ("super", resolve),
    ("head", write_head),
)


def merge_class(
    plan: ClassPlan, trace: Trace | None = None, decorators: Sequence[tuple[str, str]] = ()
) -> MergedClass:
    """Make the flat class of `plan`; `trace` is called with (pass, class text) after each pass.

    `decorators` are further class decorators, each with the method whose override makes it useless.
    Raises Refusals with every problem that the first pass with problems finds.
    """
    try:
        # Deep code overflows Python's stack here as anywhere below.
        draft = replace(make_draft(plan), decorators=tuple(decorators))
        for name, step in PASSES:
            draft = step(draft)
            # Later passes rely on what earlier ones have settled.
            if draft.problems:
                raise Refusals(draft.problems)
            if trace:
                trace(name, draft.text)
    except RecursionError as error:
        at = plan.chain[0].at(1, 0)
        what = "is nested too deeply to be merged"
        raise PatchgenError("PG006", at, what, "bind parts of it to names") from error
    return MergedClass(plan.name, draft.text, draft.notes, draft.edits)


def make_draft(plan: ClassPlan) -> Draft:
    """Read the classes of the chain, with private names that mean the same in the flat class."""
    bodies = []
    for place, (block, own) in enumerate(zip(plan.chain, plan.own_names, strict=True)):
        bodies.append(read_class_body(write_out_private_names(block, own, plan.name), own, place))
    return Draft(plan, tuple(bodies))


def _class_text(head: str, bodies: Sequence[ClassBody], order: Sequence[Statement]) -> str:
    """The head, the nearest docstring, the statements, and the comments below the last ones."""
    docstrings = [each.leading + each.text for body in bodies if (each := body.docstring)]
    kept = list(order)
    remarks = ""
    is_merged = len(bodies) > 1
    if is_merged:
        # A merged class has members, so that `pass` and `...` of its parents can go.
        kept = [statement for statement in order if not is_placeholder(statement.node)]
        remarks = _read_remarks(order)
    members = "".join(statement.leading + statement.text for statement in kept)
    if remarks and members:
        # The blank line keeps them apart from the first member, which they do not describe.
        remarks += "\n"
    # A class body needs a statement: one of the placeholders after all.
    elif not members and not docstrings:
        members = order[0].text if order else f"{INDENT}pass\n"
    tails = [body.tail for body in reversed(bodies)]
    return "".join([head, *docstrings[:1], remarks, members, *tails])


def _read_remarks(order: Sequence[Statement]) -> str:
    """The comments above placeholders: in an empty body, they are about the class."""
    empty = [statement.leading for statement in order if is_placeholder(statement.node)]
    lines = [line for leading in empty for line in leading.splitlines(True)]
    return "".join(line for line in lines if line.strip())
