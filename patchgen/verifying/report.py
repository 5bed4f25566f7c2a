"""The results of cases, and the report of them to be checked in.

A result goes through a pipe, a table and JSON.  The report has a page for people, JSON with every
number, and a page of what became of the errors that were planted.
"""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from patchgen import disk
from patchgen.project.markdown import table_lines
from patchgen.project.parity import FILE, Files, files_of, read_report
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.verifying.variants import Variant

Outcome = Literal["seen", "unseen", "no difference", "crashed"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
# NONE: there is nothing to compare, and `note` says why.
Status = Literal["PASS", "WARN", "FAIL", "NONE"]
LINES = "changed lines"
MUTANTS = "mutants"
MISSING, LEFT_OUT = "never run", "left out"  # what makes a variant not proven
MORE = "left for --full"
NAMED = 6  # of what is missing, in a note


@dataclass(frozen=True, slots=True)
class MutantResult:
    """One small error in a changed line, and what became of it."""

    place: str  # "modeling_llama_loss.py:233"
    function: str
    says: str
    diff: str
    outcome: Outcome
    note: str = ""  # the case that saw it, or why it failed
    cases: int = 0  # how many it was run in
    digest: str = ""

    @property
    def name(self) -> str:
        """Of no other mutant of the variant."""
        return f"mutant {self.place} {self.says} {self.digest[:12]}"


@dataclass(frozen=True, slots=True)
class LinesRun:
    """Which of the added and changed lines of a variant ran in some case."""

    file: str
    changed: int  # lines at which something can run
    ran: int
    not_run: tuple[tuple[int, str], ...]  # number and text
    refusals: tuple[tuple[int, str], ...] = ()  # that did not run and only refuse what is given
    mutants: int = 0  # possible mutants of lines that ran
    unplanted: int = 0  # that can be made of lines that did not run: none of them is planted


def counted(fates: Iterable[MutantResult]) -> Mapping[str, int]:
    return dict.fromkeys(OUTCOMES, 0) | Counter(fate.outcome for fate in fates)


def format_counts(fates: Iterable[MutantResult], lines: LinesRun | None = None) -> str:
    """ "23 of 24 mutants seen, 2 more made no difference, 31 on lines that did not run"."""
    counts = counted(fates)
    words = [f"{counts['seen']} of {counts['seen'] + counts['unseen']} mutants seen"]
    if counts["no difference"]:
        words.append(f"{counts['no difference']} more made no difference")
    if counts["crashed"]:
        words.append(f"{counts['crashed']} more crashed")
    if lines is not None and lines.unplanted:
        words.append(f"{lines.unplanted} on lines that did not run")
    text = ", ".join(words)
    if lines is None or not (lines.mutants or lines.unplanted):
        return text
    return f"{text} ({sum(counts.values())} planted of {lines.mutants} on lines that ran)"


# --- results


@dataclass(frozen=True, slots=True)
class Result:
    """One case; `unit` is "relative" (to a tensor's largest entry) or "noises" (of the parent)."""

    variant: str
    case: str
    status: Status
    difference: float | None = None  # the largest difference
    bound: float | None = None
    unit: str = ""
    note: str = ""
    cause: str = ""  # of a FAIL: all that have one cause say it in the same words
    seconds: float = 0.0
    lines: LinesRun | None = None  # of the case LINES
    fates: tuple[MutantResult, ...] = ()  # of the case MUTANTS

    def as_json(self) -> dict[str, Any]:
        """For JSON, without what a case does not have."""
        values = {
            name: value
            for name, value in asdict(self).items()
            if value or name not in ("lines", "fates", "cause")
        }
        return name_numbers(values)

    def __str__(self) -> str:
        numbers = {"measured": self.difference, "allowed": self.bound}
        said = [f"{number:.2e} {what}" for what, number in numbers.items() if number is not None]
        measured = f" ({self.unit}: {', '.join(said)})" if said else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.status} {self.variant} {self.case}{measured}{note}"


def name_numbers(values: Any) -> Any:
    """`values` with "inf" and "nan" for numbers that JSON does not have."""
    if isinstance(values, float) and not math.isfinite(values):
        return str(values)
    if isinstance(values, dict):
        return {name: name_numbers(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [name_numbers(value) for value in values]
    return values


def from_json(fields: dict[str, Any]) -> Result:
    for name in ("difference", "bound"):
        if fields[name] is not None:
            fields[name] = float(fields[name])
    lines = fields.get("lines")
    if lines:
        for name in ("not_run", "refusals"):
            lines[name] = tuple(map(tuple, lines[name]))
        lines = LinesRun(**lines)
    fates = tuple(MutantResult(**fate) for fate in fields.get("fates", ()))
    return Result(**{**fields, "lines": lines, "fates": fates})


def make_lines_result(variant: str, lines: LinesRun) -> Result:
    """PASS where every line ran but those that only refuse."""
    note = f"{lines.ran} of {lines.changed} changed lines ran"
    if lines.refusals:
        note += f", {len(lines.refusals)} more only refuse"
    if lines.not_run:
        note += f"; not run: {lines.file}:{shorten([number for number, _ in lines.not_run])}"
    return Result(variant, LINES, "WARN" if lines.not_run else "PASS", note=note, lines=lines)


def make_mutants_result(
    variant: str, fates: tuple[MutantResult, ...], lines: LinesRun | None = None
) -> Result:
    """PASS where each that runs was seen, or computes the same."""
    note = format_counts(fates, lines)
    status: Status = "PASS" if counted(fates)["seen"] else "NONE"
    unseen = [f"{fate.place} {fate.says}" for fate in fates if fate.outcome == "unseen"]
    if unseen:
        note += f"; unseen: {shorten(unseen)}"
        status = "WARN"
    return Result(variant, MUTANTS, status, note=note, fates=fates)


def make_open_results(
    variant: str, missing: Sequence[str], late: Mapping[str, int]
) -> Iterator[Result]:
    """What no case has run, and how many of each kind did not fit into the time."""
    for what in missing:
        yield Result(variant, MISSING, "NONE", note=what)
    for kind, count in late.items():
        note = f"{count} {kind} did not fit into the time of this run: --full runs all"
        if count:
            yield Result(variant, LEFT_OUT if kind == "cases" else MORE, "NONE", note=note)


def describe(variant: Variant) -> Iterator[Result]:
    """What is to be known of a variant before it is run."""
    if variant.edited:
        path = f"{variant.module.replace('.', '/')}.py"
        note = f"{path} is not what patchgen.lock records; patchgen check says what differs"
        yield Result(variant.name, "the generated file", "WARN", note=note)
    if variant.another_release:
        yield Result(variant.name, "the release", "WARN", note=variant.another_release)
    if variant.differs:
        what = "; ".join(f"{name} ({why})" for name, why in variant.differs)
        yield Result(variant.name, "differs on purpose", "NONE", note=what)


def causes(results: Iterable[Result]) -> list[tuple[str, list[Result]]]:
    """Each cause of FAILs with its results, the most first."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "FAIL":
            found.setdefault(f"{result.variant}: {result.cause or result.note}", []).append(result)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def shorten(names: Sequence[object]) -> str:
    more = len(names) - NAMED
    return ", ".join(map(str, names[:NAMED])) + (f" and {more} more" if more > 0 else "")


def counts(results: Iterable[Result]) -> dict[str, int]:
    return dict.fromkeys(get_args(Status), 0) | Counter(result.status for result in results)


# --- verdicts


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a variant is proven equal to its parent, and if not, why."""

    verdict: Literal["proven", "not proven", "fails"]
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.verdict, "; ".join(self.why))))


def find_proofs(variants: Iterable[str], results: Iterable[Result]) -> dict[str, Proof]:
    """The proof of each variant.  One is proven only where everything that it needs has run."""
    found: dict[str, list[Result]] = {name: [] for name in variants}
    for result in results:
        found[result.variant].append(result)
    return {name: _find_proof(own) for name, own in found.items()}


def _find_proof(results: Sequence[Result]) -> Proof:
    failed = sum(result.status == "FAIL" for result in results)
    if failed:
        return Proof("fails", (f"{failed} of {len(results)} cases",))
    if not any(map(_is_compared, results)):
        return Proof("not proven", ("nothing was compared; --verbose shows why",))
    missing = tuple(each.note for each in results if each.case in (MISSING, LEFT_OUT))
    if missing:
        return Proof("not proven", missing)
    return Proof("proven")


def _is_compared(result: Result) -> bool:
    """Whether numbers of the variant were compared with its parent's."""
    is_apart = " planted: " in result.case or " itself: " in result.case
    return result.difference is not None and not is_apart


# --- the report

_LEGEND = "`docs/verify.md` of patchgen says what each column means, and each outcome of an error."


@dataclass(frozen=True, slots=True)
class RunDescription:
    command: str
    device: str
    versions: tuple[tuple[str, str], ...]
    about: Mapping[str, Files] = field(default_factory=dict)  # by variants: the files as they were


def find_best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def find_device(asked: str | None) -> str:
    """`asked`, or the best there is.  Raises PatchgenError PG917 where torch has none."""
    import torch

    device = asked or find_best_device()
    try:
        torch.empty(0, device=device)
    except Exception as error:  # each kind of device has its own
        reason = str(error).partition("\n")[0]
        raise PatchgenError("PG917", Location(f"--device {device}"), reason) from error
    return device


def describe_run(command: str, device: str, variants: Sequence[Variant]) -> RunDescription:
    import torch
    import transformers

    import patchgen

    versions = {
        "patchgen": patchgen.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if device.startswith("cuda"):
        versions["CUDA"] = str(torch.version.cuda)
        device = torch.cuda.get_device_name(device)
    # Before anything runs: what is changed meanwhile was not verified.
    about = {variant.name: files_of(Path(variant.home), variant.modular) for variant in variants}
    return RunDescription(command, device, tuple(versions.items()), about)


def as_data(
    results: Sequence[Result],
    origin: RunDescription,
    commands: Mapping[str, str] | None = None,
    about: Mapping[str, Files] | None = None,
) -> dict[str, Any]:
    """Every case with its numbers, for JSON.

    `commands` gives the command of each variant, `about` the files that its cases are about.
    """
    names = dict.fromkeys(result.variant for result in results)
    proofs = find_proofs(names, results)
    return {
        "command": origin.command,
        "commands": commands or {},
        "device": origin.device,
        "versions": dict(origin.versions),
        "about": origin.about if about is None else about,
        "counts": counts(results),
        "verdicts": {name: asdict(proof) for name, proof in proofs.items()},
        "cases": [result.as_json() for result in results],
    }


def as_markdown(
    variants: Iterable[Variant],
    results: Sequence[Result],
    origin: RunDescription,
    commands: Sequence[str] = (),
) -> str:
    """The page; `commands` gave the results, if several did."""
    gpu = f"The kernels of {origin.device} ran."
    if origin.device == "cpu":
        gpu = "No GPU was here: this is the CPU's arithmetic."
    lines = ["# Parity", "", f"{format_origin(origin, commands)}. {gpu}", "", _LEGEND, ""]
    rows = []
    pages: list[str] = []
    for variant in variants:
        found = [result for result in results if result.variant == variant.name]
        parent = f"`{variant.parent.rpartition('.')[2]}`", ", ".join(variant.parts)
        statuses = (str(count) for count in counts(found).values())
        ran = format_lines(found), format_mutants(found)
        rows.append((f"[{variant.name}](#{variant.name})", *parent, *statuses, *ran))
        cases = [
            (each.case, each.status, number(each.difference), number(each.bound), each.note)
            for each in found
        ]
        heads = ("difference", "bound")
        pages += ["", f"## {variant.name}", ""]
        pages += table_lines(("case", "", *heads, ""), cases, numbers=heads)
    numbers = (*get_args(Status), "lines run", "mutants seen")
    lines += table_lines(("variant", "parent", "parts", *numbers), rows, numbers=numbers)
    return "\n".join([*lines, *pages]) + "\n"


def format_origin(origin: RunDescription, commands: Sequence[str] = ()) -> str:
    """The command, and what it ran with."""
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions)
    return f"{', '.join(f'`{command}`' for command in commands or (origin.command,))}, {versions}"


def format_lines(results: Iterable[Result]) -> str:
    """ "254 of 256" changed lines ran; nothing where nobody asked."""
    lines = (each.lines for each in results if each.lines is not None)
    return "".join(f"{each.ran} of {each.changed}" for each in lines)


def format_mutants(results: Iterable[Result]) -> str:
    """ "23 of 24" mutants seen, of those that run and compute something else."""
    found = [counted(each.fates) for each in results if each.fates]
    return "".join(f"{each['seen']} of {each['seen'] + each['unseen']}" for each in found)


def number(value: float | None) -> str:
    """Short: nothing, 0, or two digits."""
    return f"{value:.1e}" if value else "" if value is None else "0"


def format_mutants_page(
    variants: Iterable[Variant], results: Sequence[Result], made_by: str
) -> str:
    """What became of errors in the changed lines; `made_by` is Markdown."""
    total = format_counts(_fates_of(results))
    page = ["# Mutants", "", f"{made_by}.", "", _LEGEND, "", f"{total}."]
    for variant in variants:
        own = [result for result in results if result.variant == variant.name]
        run = next((result.lines for result in own if result.lines is not None), None)
        page += _of_variant(variant.name, _fates_of(own), run)
    return "\n".join(page) + "\n"


def _fates_of(results: Iterable[Result]) -> list[MutantResult]:
    return [fate for result in results for fate in result.fates]


def _of_variant(name: str, fates: Sequence[MutantResult], run: LinesRun | None) -> Iterator[str]:
    unseen = [fate for fate in fates if fate.outcome == "unseen"]
    missed = ""
    if run is not None:
        missed = ", ".join(str(number) for number, _ in run.not_run)
    if unseen or missed:
        counts = format_counts(fates, run)
        yield f"\n## {name}\n"
        yield f"{counts}. Lines that did not run: {missed or 'none'}.\n"
    for fate in unseen:
        yield f"`{fate.place}`, {fate.says}: {fate.note}.\n"
        yield f"```diff\n{fate.diff}\n```\n"


def read_record(
    folder: Path, origin: RunDescription
) -> tuple[list[Result], Mapping[str, str], Mapping[str, Files]]:
    """Results of the report in `folder`, their commands, and the files that they are about.

    None of another device or other versions.
    """
    try:
        data = read_report(folder)
        if (data["device"], data["versions"]) != (origin.device, dict(origin.versions)):
            return [], {}, {}
        results = [from_json(case) for case in data["cases"]]
    except (PatchgenError, ValueError, KeyError, TypeError, AttributeError):
        return [], {}, {}
    commands = data["commands"]
    if not commands:
        commands = dict.fromkeys((each.variant for each in results), data["command"])
    return results, commands, data["about"]


def write_report(
    folder: Path, gallery: Sequence[Variant], results: Sequence[Result], origin: RunDescription
) -> None:
    """What `gallery` has no results of stays as the report said it before."""
    names = [variant.name for variant in gallery]
    newer = dict.fromkeys((each.variant for each in results), origin.command)
    before, commands_before, about_before = read_record(folder, origin)
    commands = {**commands_before, **newer}
    for name in commands.keys() - names:
        del commands[name]
    about = {**about_before, **origin.about}
    for name in about.keys() - commands.keys():
        del about[name]
    kept = [each for each in before if each.variant in names and each.variant not in newer]
    ordered = sorted([*kept, *results], key=lambda result: names.index(result.variant))
    reported = [variant for variant in gallery if variant.name in commands]
    every = tuple(dict.fromkeys(commands.values()))
    pages = {
        FILE: json.dumps(as_data(ordered, origin, commands, about), indent=1) + "\n",
        "parity.md": as_markdown(reported, ordered, origin, every),
        "mutants.md": format_mutants_page(reported, ordered, format_origin(origin, every)),
    }
    for name, text in pages.items():
        disk.write(folder / name, text, folder)
