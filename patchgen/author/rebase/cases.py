"""One declared change: what is known of it, and what the compiler says."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.declared import Declared, declared_changes
from patchgen.author.rebase.proof import Given
from patchgen.author.rebase.rewriting import member_of
from patchgen.author.rebase.sides import Clash
from patchgen.author.rebase.state import OPEN, Outcome, State
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source

CLASS = "(class)"  # the member of a change that is about a class as a whole
KEEP, DROP = "keep", "drop"  # decisions that are no text


@dataclass(frozen=True)
class Result:
    """The outcome of one declared change.

    `before` and `after` are the parent's text in both releases.
    """

    change: Declared
    state: State
    clashes: tuple[Clash, ...] = ()
    before: str = ""
    after: str = ""
    merged: str = ""

    @property
    def upstream(self) -> list[str]:
        """The lines of a diff: what upstream changed in the member."""
        lines = difflib.unified_diff(
            self.before.split("\n"), self.after.split("\n"), lineterm="", n=1
        )
        return list(lines)[2:]

    @property
    def is_open(self) -> bool:
        """Whether a person has to decide it."""
        return self.state in OPEN


@dataclass
class Case:
    """A change in progress: its members on all sides, and what is known of it so far."""

    change: Declared
    result: Result
    outcome: Outcome = field(default_factory=lambda: Outcome(State.UNCHANGED))
    wanted: list[str] | None = None  # the merged member, as the output has to have it
    theirs: File | None = None
    decision: str = ""  # of a person, who answers for what it gives


def left_open(cases: Iterable[Case]) -> dict[Declared, None]:
    """What is left to a person, and can be left out to see whether the rest fits."""
    open_cases = [case.change for case in cases if case.result.is_open]
    return dict.fromkeys(change for change in open_cases if not change.is_whole)


def taken_out(cases: Iterable[Case]) -> dict[Declared, None]:
    """What to remove from the modular file: upstream does it now, or a person decided so."""
    return {
        case.change: None
        for case in cases
        if case.result.state is State.ABSORBED or case.decision == DROP
    }


def failing_changes(
    problems: Iterable[Problem],
    text: str,
    changes: list[Declared],
    left_out: Mapping[Declared, object],
) -> list[Declared]:
    """The changes at whose lines the compiler found problems."""
    there = [one for one in changes if one not in left_out]
    lines = [problem.at.line for problem in problems]
    found: list[Declared] = []
    try:
        tree = read_file(make_source(text, "modular.py"))
    except PatchgenError:
        return []
    for now in declared_changes(tree):
        if any(first_line(n) <= line <= (n.end_lineno or 0) for n in now.nodes for line in lines):
            found += [one for one in there if (one.name, one.kind) == (now.name, now.kind)]
    return found


def is_given(given: Given, case: Case) -> bool:
    """Whether an output has the member of a change as it should be."""
    member = given_member(given, case)
    return member is not None and (bool(case.decision) or member == case.wanted)


def given_member(given: Given, case: Case) -> list[str] | None:
    """The member of a change in an output."""
    file = given.file_of(case.change.module)
    member = member_of(file, case.change.owner, case.change.member) if file is not None else None
    return [plain_text(node) for node in member.nodes] if member is not None else None


def whole_classes(changes: Iterable[Declared]) -> list[Declared]:
    """One change for each class that is written out."""
    found: dict[str, Declared] = {}
    for change in changes:
        if change.is_whole and change.owner:
            found.setdefault(change.owner, change)
    return list(found.values())


def put_in_doubt(case: Case, why: str) -> None:
    """Leave a change to a person: the declaration would not give the merged text."""
    clash = Clash(why, case.result.before, case.outcome.text, case.result.after)
    case.result = replace(case.result, state=State.CONFLICT, clashes=(clash,))
    case.wanted, case.decision = None, ""
