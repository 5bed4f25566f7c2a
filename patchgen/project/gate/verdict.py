"""The results of the gate: a `Verdict` for each output, a `Report` for each run."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.compiler.flat import Note
from patchgen.project.batch.outcome import Made, Outcome
from patchgen.project.gate.overrides import OverrideReport
from patchgen.project.places import LOCK
from patchgen.syntax.errors import Location, Problem


class Status(enum.StrEnum):
    """The state of one output."""

    OK = "ok"
    STALE = "stale"
    MISSING = "missing"
    ORPHANED = "orphaned"
    NOT_GENERATED = "not generated"
    UNRECORDED = "unrecorded"


_CODES = {
    Status.STALE: "PG501",
    Status.MISSING: "PG502",
    Status.ORPHANED: "PG503",
    Status.UNRECORDED: "PG504",
    Status.NOT_GENERATED: "PG509",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file as it should be; `data` is None for one that should not exist."""

    path: Path
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one output or of its diff, and the files to write or remove to repair it.

    `line` is the first line that differs; `diff` leads from the file as it is to the file as it
    should be.  `is_edited`: somebody edited the output, and not only its diff.
    """

    display_path: str
    modular: str
    status: Status
    why: tuple[str, ...] = ()
    is_edited: bool = False
    line: int = 0
    diff: str = field(default="", repr=False)
    fixes: tuple[Wanted, ...] = field(default=(), repr=False)
    made: Made | None = field(default=None, repr=False)

    @property
    def problem(self) -> Problem | None:
        """The verdict as a finding; None for an output that is right."""
        if self.status is Status.OK:
            return None
        what, hint = _say(self)
        # Without a line, the finding is about the whole file, and has no column either.
        at = Location(self.display_path, self.line, 1 if self.line else 0)
        return Problem(at, _CODES[self.status], what, hint)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found, in order."""

    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    overrides: OverrideReport = OverrideReport()

    @property
    def findings(self) -> tuple[Problem, ...]:
        """Problems, verdicts that are not ok, and stale overrides, by place."""
        found = {*self.problems, *self.overrides.unrecorded}
        found.update(p for v in self.verdicts if (p := v.problem) is not None)
        found.update(stale.problem for stale in self.overrides.stale)
        return tuple(sorted(found))

    @property
    def refused(self) -> tuple[str, ...]:
        """The modular files that give no outputs, in order."""
        places = {problem.at.path for problem in self.problems if problem.severity == "error"}
        refused: set[str] = set()
        for outcome in self.outcomes:
            display_path = outcome.modular.display_path
            # Two files that give one output have no problem in their outcomes.
            if outcome.problems or display_path in places:
                refused.add(display_path)
        return tuple(sorted(refused))


def _say(verdict: Verdict) -> tuple[str, str]:
    """The message about a verdict, and the hint."""
    why = f": {'; '.join(verdict.why)}" if verdict.why else ""
    convert = "run `patchgen convert`"
    match verdict.status:
        case Status.MISSING:
            return f"is missing; {verdict.modular} gives it", convert
        case Status.ORPHANED if verdict.fixes:
            return f"is orphaned{why}", "`patchgen check --fix` removes it"
        case Status.ORPHANED:
            return (
                f"is orphaned{why or ': no modular file gives it'}",
                "delete it, or bring its modular file back",
            )
        case Status.NOT_GENERATED if verdict.why:
            return (
                f"is {verdict.why[0]}, and {verdict.modular} gives a file of this name",
                "move it away",
            )
        case Status.NOT_GENERATED:
            what = f"was not written by patchgen, and {verdict.modular} gives a file of this name"
            return what, "move it away, or let `patchgen convert --force` replace it"
        case Status.UNRECORDED:
            return f"is not what {LOCK} records{why}", convert
        case _ if verdict.is_edited:
            # Converting alone would lose the edit.
            return f"is stale{why}", f"move the edit into {verdict.modular}, then {convert}"
        case _:
            return (
                f"is stale{why or f': it differs from what {verdict.modular} gives now'}",
                convert,
            )
