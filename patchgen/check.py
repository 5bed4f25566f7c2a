"""The gate: is every output what its modular file gives, and if not, why?

In: the outcomes of a run, and the files and records as they are.  Out: one `Verdict` per output and every problem, as
values.  Nothing is written here; `convert` writes what a verdict says.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.errors import Location, Problem
from patchgen.flat import Note, is_generated
from patchgen.lock import NAME, Record, describe
from patchgen.outcome import Made, Outcome, unified
from patchgen.project import Found, Modular, Project

HEAD = 20_000  # characters in which a banner is looked for


class Status(enum.StrEnum):
    """What the gate says of one output."""

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
    """A file as it should be; `data` is None for one that should not be there."""

    path: Path
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds of one output, and the files to write to mend it.

    `line` is the first that differs; `diff` leads from the file as it is to the file as it should be.
    """

    shown: str
    modular: str
    status: Status
    why: tuple[str, ...] = ()
    line: int = 0
    diff: str = field(default="", repr=False)
    mend: tuple[Wanted, ...] = field(default=(), repr=False)
    made: Made | None = field(default=None, repr=False)

    @property
    def problem(self) -> Problem | None:
        """The verdict as a finding; None when all is well."""
        if self.status is Status.OK:
            return None
        what, hint = _say(self)
        return Problem(Location(self.shown, self.line, 1 if self.line else 0), _CODES[self.status], what, hint)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found, in order."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    notes: tuple[Note, ...]
    outcomes: tuple[Outcome, ...] = field(repr=False)

    @property
    def findings(self) -> tuple[Problem, ...]:
        """Problems and verdicts that are not ok, by place."""
        return tuple(sorted({*self.problems, *(p for v in self.verdicts if (p := v.problem) is not None)}))


Again = Callable[[Sequence[Modular]], Sequence[Outcome]]


def examine(
    project: Project,
    found: Found,
    outcomes: Sequence[Outcome],
    records: Mapping[str, Record],
    made_by: str,
    again: Again,
) -> Report:
    """The verdict on every output of `outcomes` and on what has no modular file any more.

    `again` flattens files whose texts are not at hand; it is called at most once.
    """
    clashes = find_clashes(outcomes)
    sound = [outcome for outcome in outcomes if not outcome.problems and outcome.modular not in clashes]
    unclean = [outcome.modular for outcome in sound if outcome.texts is None and not _is_clean(outcome)]
    fresh = {outcome.modular: outcome for outcome in again(unclean)} if unclean else {}
    sound = [fresh.get(outcome.modular, outcome) for outcome in sound]
    judge = _Judge(project, records, made_by)
    verdicts = [judge.verdict(outcome, made) for outcome in sound for made in outcome.made]
    late = [problem for outcome in fresh.values() for problem in outcome.problems]
    problems = [*found.problems, *(p for outcome in outcomes for p in outcome.problems), *clashes.values(), *late]
    verdicts += find_orphans(project, found, outcomes, records)
    notes = tuple(note for outcome in sound for made in outcome.made for note in made.notes)
    return Report(tuple(sorted(verdicts, key=lambda v: v.shown)), tuple(sorted(set(problems))), notes, tuple(outcomes))


def _is_clean(outcome: Outcome) -> bool:
    return all(_digest(path) == digest for made in outcome.made for path, digest in files_of(outcome.modular, made))


def files_of(modular: Modular, made: Made) -> Iterator[tuple[Path, str]]:
    """The files of one output, the diff included, with the digests that they should have."""
    yield modular.folder / made.name, made.digest
    if made.diff_digest:
        yield modular.folder / made.diff_name, made.diff_digest


def find_clashes(outcomes: Iterable[Outcome]) -> dict[Modular, Problem]:
    """Modular files that give the same output, if only by case, with an error for each that names the other."""
    owners: dict[str, list[Modular]] = {}
    for outcome in outcomes:
        for name in dict.fromkeys(str(outcome.modular.folder / made.name).casefold() for made in outcome.made):
            owners.setdefault(name, []).append(outcome.modular)
    clashes = {}
    for name, modulars in sorted(owners.items()):
        for modular in modulars if len(modulars) > 1 else []:
            others = " and ".join(other.shown for other in modulars if other != modular)
            what = f"gives the output {Path(name).name}, and so does {others}"
            hint = "rename one of them, or map their folders to different places"
            clashes[modular] = Problem(Location(modular.shown), "PG508", what, hint)
    return clashes


@dataclass(frozen=True, slots=True)
class _Judge:
    """Compares outputs with files; holds what is the same for all of them."""

    project: Project
    records: Mapping[str, Record]
    made_by: str

    def verdict(self, outcome: Outcome, made: Made) -> Verdict:
        """The verdict on one output and the diff beside it: the first of the two that is not right."""
        texts = outcome.texts or {}
        modular = outcome.modular
        wrong = [path for path, digest in files_of(modular, made) if _digest(path) != digest]
        shown = self.project.shown(modular.folder / made.name)
        record = self.records.get(shown)
        if not wrong:
            status = Status.OK if not modular.recorded or _is_recorded(record, made) else Status.UNRECORDED
            return Verdict(shown, modular.shown, status, made=made)
        mend = tuple(Wanted(path, texts[path.name].encode("utf-8")) for path in wrong)
        path, text = wrong[0], texts[wrong[0].name]
        name = self.project.shown(path)
        present = _text(path)
        if present is None:
            status = Status.NOT_GENERATED if path.is_dir() else Status.MISSING
            return Verdict(name, modular.shown, status, mend=mend, made=made)
        status = Status.STALE if _may_replace(path, present) else Status.NOT_GENERATED
        why = self.why(outcome, made, record, wrong)
        diff = unified(present, text, name, f"{name} (as its modular file gives it)")
        return Verdict(name, modular.shown, status, why, _first_difference(present, text), diff, mend, made)

    def why(self, outcome: Outcome, made: Made, record: Record | None, wrong: Sequence[Path]) -> tuple[str, ...]:
        """What changed since the output was recorded; empty when there is no record to compare with."""
        if record is None:
            return ()
        known = {made.name: record.digest, made.diff_name: record.diff_digest}
        reasons = [f"{path.name} was edited by hand" for path in wrong if _digest(path) not in ("", known[path.name])]
        if record.modular_digest != outcome.digest:
            reasons.append("the modular file changed")
        changed = sorted({used.symbol for used in {*record.parents} ^ {*made.parents}})
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            reasons.append(f"the parent changed: {', '.join(changed[:3])}{more}")
        if (record.digest, record.diff_digest) == (made.digest, made.diff_digest):
            return tuple(reasons)
        settings = describe(self.project.config.settings)
        if record.settings != settings:
            reasons.append(f"the settings changed: {record.settings} -> {settings}")
        if not reasons or record.made_by != self.made_by:
            reasons.append(_tool_change(record.made_by, self.made_by))
        return tuple(reasons)


def _tool_change(old: str, new: str) -> str:
    before, after = (dict(part.rsplit(" ", 1) for part in text.split(", ")) for text in (old, new))
    changes = [
        f"{name} {before.get(name, 'absent')} -> {release}"
        for name, release in after.items()
        if before.get(name) != release
    ]
    return f"the tool changed: {', '.join(changes)}" if changes else "patchgen itself changed"


def _is_recorded(record: Record | None, made: Made) -> bool:
    return record is not None and (record.digest, record.diff_digest) == (made.digest, made.diff_digest)


def _may_replace(path: Path, present: str) -> bool:
    """Whether the file is one that patchgen wrote."""
    return present.startswith("--- ") if path.suffix == ".diff" else is_generated(present[:HEAD])


def find_orphans(
    project: Project, found: Found, outcomes: Sequence[Outcome], records: Mapping[str, Record]
) -> list[Verdict]:
    """Generated files, and records of such, that no modular file gives any more."""
    expected = {path for o in outcomes for made in o.made for path, _ in files_of(o.modular, made)}
    failed = {(o.modular.folder, o.modular.path.stem.removeprefix("modular_")) for o in outcomes if o.problems}
    ours = {outcome.modular.shown for outcome in outcomes}
    orphans: dict[Path, Verdict] = {}
    for record in records.values():
        path = project.home / record.output
        in_scope = record.modular in ours or any(path.is_relative_to(folder) for folder in found.folders)
        if in_scope and path not in expected and not _belongs_to(path, failed):
            files = [path, path.with_suffix(".diff")] if record.diff_digest else [path]
            orphans[path] = _orphan(project, record.modular, [file for file in files if file.exists()], record)
    for folder in found.folders:
        for path in sorted(folder.rglob("*.py")):
            if path not in expected and path not in orphans and not _belongs_to(path, failed) and _has_banner(path):
                orphans[path] = _orphan(project, "", [path])
    return list(orphans.values())


def _orphan(project: Project, modular: str, files: Sequence[Path], record: Record | None = None) -> Verdict:
    """The verdict on files that nothing gives; only what nobody has edited is offered for removal."""
    if record is None:
        return Verdict(project.shown(files[0]), modular, Status.ORPHANED)
    untouched = [path for path in files if _digest(path) in (record.digest, record.diff_digest)]
    why: tuple[str, ...] = (
        f"{modular} gives it no more" if (project.home / modular).exists() else f"{modular} is gone",
    )
    if not files:
        why = (*why, f"and so is the output; only {NAME} names it")
    mend = tuple(Wanted(path, None) for path in untouched)
    return Verdict(record.output, modular, Status.ORPHANED, why, mend=mend if len(untouched) == len(files) else ())


def _belongs_to(path: Path, failed: set[tuple[Path, str]]) -> bool:
    """Whether `path` may be an output of a modular file that failed, and so is no orphan."""
    return any(path.parent == folder and path.stem.endswith(f"_{name}") for folder, name in failed)


def _has_banner(path: Path) -> bool:
    present = _text(path)
    return present is not None and is_generated(present[:HEAD])


def _text(path: Path) -> str | None:
    """The text of the file at `path`, read so that no byte of it can fail; None where there is no file."""
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return ""


def _first_difference(old: str, new: str) -> int:
    left, right = old.split("\n"), new.split("\n")
    same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    return min(same + 1, len(left))


def _say(verdict: Verdict) -> tuple[str, str]:
    """What to tell a person about a verdict, and what to do about it."""
    why = f": {'; '.join(verdict.why)}" if verdict.why else ""
    again = "run `patchgen convert`"
    match verdict.status:
        case Status.MISSING:
            return f"is missing; {verdict.modular} gives it", again
        case Status.ORPHANED:
            return (
                f"is orphaned{why or ': no modular file gives it'}",
                "`patchgen check --fix` removes it, or delete it",
            )
        case Status.NOT_GENERATED:
            what = f"was not written by patchgen, and {verdict.modular} gives a file of this name"
            return what, "move it away, or let `patchgen convert --force` replace it"
        case Status.UNRECORDED:
            return f"is not what {NAME} records", again
        case _:
            return f"is stale{why or f': it differs from what {verdict.modular} gives now'}", again
