"""The results of the gate: a `Verdict` for each output, a `Report` for each run, and reasons."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from patchgen.compiler.flat import Note
from patchgen.project.base import Change as BaseChange
from patchgen.project.lock import Record, modules_read, shorten
from patchgen.project.outcome import Outcome, Output, unified
from patchgen.project.overrides import OverrideReport
from patchgen.project.parents import Parents
from patchgen.project.places import LOCK
from patchgen.project.versions import own_digest
from patchgen.project.write import Change
from patchgen.syntax.errors import Location, Problem

NAMED = 3  # definitions of one module that are named before they are counted


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


NOT_OURS = "it does not say that patchgen wrote it, or stands in no folder of outputs"
LINE_ENDS = "only its line ends differ, which git makes those of Windows"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one output or of its diff, and the changes of files that repair it.

    `line` is the first line that differs, and `before` the text that stands there.  `is_edited`:
    somebody edited the output, and not only its diff.
    """

    display_path: str
    modular: str
    status: Status
    why: tuple[str, ...] = ()
    is_edited: bool = False
    line: int = 0
    before: str | None = field(default=None, repr=False)
    fixes: tuple[Change, ...] = field(default=(), repr=False)
    output: Output | None = field(default=None, repr=False)

    @property
    def diff(self) -> str:
        """What leads from the file as it is to the file as it should be; few runs ask for it."""
        if self.before is None:
            return ""
        after = (self.fixes[0].data or b"").decode()
        # Programs that apply diffs take what is behind a tab for a date.
        name = f"{self.display_path}\tas its modular file gives it"
        return unified(self.before, after, self.display_path, name)

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
    """Everything that a run found, in order; `changes` are those from the commit of `--base`."""

    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    overrides: OverrideReport = OverrideReport()
    parents: tuple[Parents, ...] = ()
    changes: tuple[BaseChange, ...] = ()

    @property
    def findings(self) -> tuple[Problem, ...]:
        """Problems, verdicts that are not ok, and stale overrides, by place."""
        findings = {*self.problems, *self.overrides.unrecorded}
        findings.update(stale.problem for stale in self.overrides.stale)
        problems = [verdict.problem for verdict in self.verdicts]
        problems += [parents.problem for parents in self.parents]
        problems += [change.problem for change in self.changes]
        findings.update(filter(None, problems))
        return tuple(sorted(findings))

    @property
    def refused(self) -> tuple[str, ...]:
        """The modular files that give no outputs, in order."""
        places = {problem.at.path for problem in self.problems if problem.severity == "error"}
        # Two files that give one output have no problem in their outcomes.
        refused = {o.modular.display_path for o in self.outcomes if o.problems}
        return tuple(sorted(refused | {o.modular.display_path for o in self.outcomes} & places))


def _say(verdict: Verdict) -> tuple[str, str]:
    """The message about a verdict, and the hint."""
    why = f": {'; '.join(verdict.why)}" if verdict.why else ""
    convert = "run `patchgen convert`"
    match verdict.status:
        case Status.MISSING:
            return f"is missing; {verdict.modular} gives it", convert
        case Status.ORPHANED if verdict.fixes:
            return f"is orphaned{why}", "`patchgen check --fix` removes it"
        case Status.ORPHANED if NOT_OURS in verdict.why:
            return f"is orphaned{why}", f"take its record out of {LOCK}, or the old output away"
        case Status.ORPHANED:
            why = why or ": no modular file gives it"
            return f"is orphaned{why}", "delete it, or bring its modular file back"
        case Status.NOT_GENERATED:
            what = f"is {verdict.why[0]}" if verdict.why else "was not written by patchgen"
            force = "" if verdict.why else ", or let `patchgen convert --force` replace it"
            return (
                f"{what}, and {verdict.modular} gives a file of this name",
                f"move it away{force}",
            )
        case Status.UNRECORDED:
            return f"is not what {LOCK} records{why}", convert
        case _ if verdict.why == (LINE_ENDS,):
            kept = "`*.py text eol=lf` and `*.diff text eol=lf` in .gitattributes keep them"
            return f"is stale{why}", f"{convert}; {kept}"
        case _ if verdict.is_edited:
            # Converting alone would lose the edit.
            return f"is stale{why}", f"move the edit into {verdict.modular}, then {convert}"
        case _:
            why = why or f": it differs from what {verdict.modular} gives now"
            return f"is stale{why}", convert


# Why an output is stale


def reasons(
    record: Record | None,
    outcome: Outcome,
    output: Output,
    present: Mapping[str, str],
    made_by: str,
    settings: str,
) -> tuple[str, ...]:
    """What changed since the output was recorded; nothing is known without a record.

    `present` maps files that are not right to their digests on disk.
    """
    if record is None:
        return ()
    if record.flaw:
        return (record.flaw,)
    changes = [f"{name} was edited by hand" for name in find_edited(record, output, present)]
    if record.is_about(output):
        return tuple(changes)  # The result is what was recorded: nothing but the files changed.
    if record.modular_digest != shorten(outcome.digest):
        changes.append("the modular file changed")
    before = record.reads
    after = modules_read(outcome)
    # The definitions of a file that is the same need no look.
    same = {module for module in after if before.get(module) == after[module]}
    changed = _changed_parents(record, output, same)
    if changed:
        changes.append(f"the parent changed: {named(changed)}")
    if record.settings != settings:
        changes.append(f"the settings changed: {record.settings} -> {settings}")
    tools = _changed_releases(record.made_by, made_by)
    if tools:
        changes.append(f"the tool changed: {', '.join(tools)}")
    if not changes:
        # All definitions are the same: it is a file that was only read, or patchgen's own code.
        if modules := sorted(after.keys() - same):
            changes.append(f"the parent changed: {named(modules)}")
        if record.own_digest != shorten(own_digest()):
            changes.append("patchgen itself changed")
    return tuple(changes)


def find_edited(
    record: Record | None, output: Output, present: Mapping[str, str]
) -> tuple[str, ...]:
    """The files that are neither missing nor what was recorded; none without a sound record."""
    if record is None or record.flaw:
        return ()
    recorded = {output.name: record.digest, output.diff_name: record.diff_digest}
    # What is missing was not edited, and a verdict of its own says so.
    edited = (name for name in present if shorten(present[name]) not in ("", recorded[name]))
    return tuple(sorted(edited))


def _changed_parents(record: Record, output: Output, same: Set[str]) -> list[str]:
    """The definitions that have another text than was recorded; `same` are files that have not."""
    changed = []
    for used in output.parents:
        module, _, name = used.symbol.rpartition(".")
        # A statement without a name ("<import 2>") tells a reader little, and is not recorded.
        if name.isidentifier() and module not in same and not record.has(used):
            changed.append(used.symbol)
    return changed


def named(symbols: Sequence[str]) -> str:
    """Definitions in words; many of one module are counted, and the first few named."""
    modules: dict[str, list[str]] = {}
    for symbol in symbols:
        module, _, name = symbol.rpartition(".")
        modules.setdefault(module, []).append(name)
    words = []
    for module, names in modules.items():
        if len(names) <= NAMED:
            words += [f"{module}.{name}" for name in names]
        else:
            listed = ", ".join(names[:NAMED])
            words.append(f"{len(names)} definitions of {module} ({listed}, ...)")
    return ", ".join(words)


def _changed_releases(old: str, new: str) -> list[str]:
    """The tools whose release changed, each with both releases."""
    before = _read_releases(old)
    after = _read_releases(new)
    changed = []
    for name in sorted({*before, *after}):
        # The formatter may be another tool by now.
        release = before.get(name, "absent")
        now = after.get(name, "absent")
        if release != now:
            changed.append(f"{name} {release} -> {now}")
    return changed


def _read_releases(text: str) -> dict[str, str]:
    releases = {}
    for tool in text.split(", "):
        name, _, release = tool.partition(" ")
        releases[name] = release
    return releases
