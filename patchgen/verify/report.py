"""x"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from patchgen.project.markdown import table_lines
from patchgen.project.write import replace_file
from patchgen.verify.variants import Variant

Outcome = Literal["seen", "unseen", "no difference", "crashed"]
OUTCOMES: tuple[Outcome, ...] = ("seen", "unseen", "no difference", "crashed")


@dataclass(frozen=True, slots=True)
class MutantResult:
    """One mutant.

    seen: a case compared unequal.  unseen: none did, and some ran other operations.  no difference:
    all cases that run its line, in every dtype, ran the same operations on the same data.  crashed:
    it raises an exception somewhere, and no case sees it before; neither seen nor unseen.
    """

    place: str  # "modeling_llama_loss.py:233"
    function: str
    says: str
    diff: str
    outcome: Outcome
    note: str = ""  # the case that saw it, or why it failed
    cases: int = 0  # how many it was run in
    digest: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:  # of a report that an earlier patchgen wrote
            raise ValueError(f"{self.outcome} is no outcome")

    @property
    def name(self) -> str:
        """Of no other mutant of the variant."""
        return f"mutant {self.place} {self.says} {self.digest[:12]}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def lines_from_json(fields: Mapping[str, Any]) -> LinesRun:
    """The inverse of `LinesRun.as_json`."""
    texts = {name: tuple(map(tuple, fields[name])) for name in ("not_run", "refusals")}
    return LinesRun(**{**fields, **texts})


def counted(fates: Iterable[MutantResult]) -> Mapping[Outcome, int]:
    """The number of mutants with each outcome."""
    found = Counter(fate.outcome for fate in fates)
    return {outcome: found[outcome] for outcome in OUTCOMES}


def format_counts(fates: Iterable[MutantResult], lines: LinesRun | None = None) -> str:
    """How many of the mutants were seen, in words.

    "23 of 24 mutants seen, 2 more made no difference, 1 more crashed, 31 on lines that did not
    run".
    """
    found = counted(fates)
    decided = found["seen"] + found["unseen"]
    text = f"{found['seen']} of {decided} mutants seen"
    quiet, crashed = found["no difference"], found["crashed"]
    text += f", {quiet} more made no difference" if quiet else ""
    text += f", {crashed} more crashed" if crashed else ""
    if lines is None or not (lines.mutants or lines.unplanted):
        return text
    text += f", {lines.unplanted} on lines that did not run" if lines.unplanted else ""
    return f"{text} ({sum(found.values())} planted of {lines.mutants} on lines that ran)"


Status = Literal[
    "PASS", "WARN", "FAIL", "NONE"
]  # NONE: there is nothing to compare, and `note` says why


LINES = "changed lines"
MUTANTS = "mutants"
FILE = "the generated file"
LEFT_OUT = "left out"
DECLARED = "differs on purpose"
NAMED = 6  # of what is missing, in a note


@dataclass(frozen=True, slots=True)
class Result:
    """One case.

    `unit` is "relative" (to a tensor's largest entry) or "noises" (of the parent, in a narrow
    dtype).
    """

    variant: str
    case: str
    status: Status
    difference: float | None = None  # the largest difference
    bound: float | None = None
    seen: float | None = None  # the smallest planted error of this dtype, in the same unit
    unit: str = ""
    note: str = ""
    cause: str = ""  # of a FAIL: all that have one cause say it in the same words
    seconds: float = 0.0
    lines: LinesRun | None = None  # of the case LINES
    fates: tuple[MutantResult, ...] = ()  # of the case MUTANTS

    def as_json(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        fields = {
            name: value
            for name, value in asdict(self).items()
            if value or name not in ("lines", "fates", "cause")
        }
        return {
            name: str(value) if value in (float("inf"),) else value
            for name, value in fields.items()
        }

    def __str__(self) -> str:
        numbers = [f"{self.difference:.2e} measured"] if self.difference is not None else []
        numbers += [f"{self.bound:.2e} allowed"] if self.bound is not None else []
        numbers += [f"{self.seen:.2e} the smallest planted error"] if self.seen is not None else []
        measured = f" ({self.unit}: {', '.join(numbers)})" if numbers else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.status} {self.variant} {self.case}{measured}{note}"


def make_lines_result(variant: str, lines: LinesRun) -> Result:
    """PASS where every line ran but those that only refuse."""
    note = f"{lines.ran} of {lines.changed} changed lines ran"
    note += f", {len(lines.refusals)} more only refuse" if lines.refusals else ""
    if lines.not_run:
        note += f"; not run: {lines.file}:{_listed([str(number) for number, _ in lines.not_run])}"
    return Result(variant, LINES, "WARN" if lines.not_run else "PASS", note=note, lines=lines)


def make_mutants_result(
    variant: str, fates: tuple[MutantResult, ...], lines: LinesRun | None = None
) -> Result:
    """PASS where each that runs was seen, or computes the same."""
    found = counted(fates)
    note = format_counts(fates, lines)
    if unseen := [f"{fate.place} {fate.says}" for fate in fates if fate.outcome == "unseen"]:
        note += f"; unseen: {_listed(unseen)}"
    status: Status = "WARN" if unseen else "PASS" if found["seen"] else "NONE"
    return Result(variant, MUTANTS, status, note=note, fates=fates)


def make_left_out_result(variant: str, cases: int, mutants: int) -> Result:
    """What did not fit into the time of a run."""
    what = [f"{cases} cases"] if cases else []
    what += [f"{mutants} planted errors"] if mutants else []
    note = f"{' and '.join(what)} did not fit into the time of this run: --full runs all"
    return Result(variant, LEFT_OUT, "NONE", note=note)


def describe(variant: Variant) -> Iterator[Result]:
    """What is to be known of a variant before it is run."""
    if variant.edited:
        path = f"{variant.module.replace('.', '/')}.py"
        note = f"{path} is not what patchgen.lock records; patchgen check says what differs"
        yield Result(variant.name, FILE, "WARN", note=note)
    if variant.differs:
        what = "; ".join(f"{name} ({why})" for name, why in variant.differs)
        yield Result(variant.name, DECLARED, "NONE", note=what)


def causes(results: Iterable[Result]) -> Iterator[tuple[str, list[Result]]]:
    """Each cause of FAILs with its results, the most first."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "FAIL":
            found.setdefault(f"{result.variant}: {result.cause or result.note}", []).append(result)
    yield from sorted(found.items(), key=lambda item: -len(item[1]))


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many of each status, in this order."""
    found = Counter(result.status for result in results)
    return {status: found[status] for status in ("PASS", "WARN", "FAIL", "NONE")}


def find_unproven(variants: Iterable[str], results: Iterable[Result]) -> tuple[str, ...]:
    """Those of `variants` for which no numbers were compared with the parent's."""
    proven = {
        each.variant
        for each in results
        if each.difference is not None
        and " planted: " not in each.case
        and " itself: " not in each.case
    }
    return tuple(name for name in variants if name not in proven)


def from_json(fields: dict[str, Any]) -> Result:
    """The inverse of `as_json`."""
    for name in ("difference", "bound", "seen"):
        fields[name] = None if fields[name] is None else float(fields[name])
    lines = lines_from_json(fields["lines"]) if fields.get("lines") else None
    fates = tuple(MutantResult(**fate) for fate in fields.get("fates", ()))
    return Result(**{**fields, "lines": lines, "fates": fates})


@dataclass(frozen=True, slots=True)
class Record:
    """Results, and the command that gave those of each variant."""

    results: tuple[Result, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)

    def of(self, names: Collection[str]) -> Record:
        """The record of some variants."""
        return Record(
            tuple(each for each in self.results if each.variant in names),
            {name: command for name, command in self.commands.items() if name in names},
        )

    def with_newer(self, newer: Record) -> Record:
        """This record where `newer` says nothing of a variant, and `newer` where it does."""
        kept = self.of(self.commands.keys() - newer.commands.keys())
        return Record((*kept.results, *newer.results), {**kept.commands, **newer.commands})


def make_record(results: Sequence[Result], command: str) -> Record:
    """The record of one run."""
    return Record(tuple(results), dict.fromkeys((each.variant for each in results), command))


def read_record(path: Path, device: str, versions: Mapping[str, str]) -> Record:
    """What `path`, a parity.json, holds; nothing if it is of another device or of other versions.

    A file that cannot be read is replaced, as one that is not there.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if (data["device"], data["versions"]) != (device, dict(versions)):
            return Record()
        results = tuple(from_json(case) for case in data["cases"])
        names = dict.fromkeys(each.variant for each in results)
        commands = data.get("commands") or dict.fromkeys(names, data["command"])
    except (OSError, ValueError, KeyError, TypeError):
        return Record()
    return Record(results, commands)


_LEGEND = """\
Each case compares the variant with its parent: loss, logits, every hidden state, and the gradient
of every parameter, at real tokens, in training with dropout off unless the case says otherwise.
*closest* is the parent's nearest computation (its own SDPA, if it has that), *independent* another
one (its eager attention).

- **PASS**: the difference is within the bound, and the smallest error planted on purpose is at
  least ten times larger than the bound.
- **WARN**: the difference is within the bound, but a planted error is not that much larger; or a
  plan names something that does not exist, in the parent as well.
- **NONE**: there is nothing to compare, for the reason that is given.

Differences are relative to the largest entry of each tensor. In bfloat16 they are in units of the
parent's own noise, which is measured in the same run, and are taken from the nearer of two
references: the parent, and the parent in float32 (both round). *lines run*: how many of the lines
that the variant adds or changes ran in some case. *mutants seen*: how many of the small errors
planted in those lines some case noticed. [mutants.md](mutants.md) lists all others, with their
diffs.
"""


@dataclass(frozen=True, slots=True)
class RunDescription:
    """Where and how a report was made."""

    command: str
    device: str
    versions: tuple[tuple[str, str], ...]

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


def find_best_device() -> str:
    """Where models run if nobody says otherwise."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_run(command: str, device: str) -> RunDescription:
    """Of this run.  Asks torch, which is imported."""
    import torch
    import transformers

    import patchgen

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    versions = {
        "patchgen": patchgen.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if device.startswith("cuda"):
        versions["CUDA"] = str(torch.version.cuda)
    return RunDescription(command, name, tuple(versions.items()))


def as_json(
    results: Sequence[Result], made: RunDescription, commands: Mapping[str, str] | None = None
) -> str:
    """Every case with its numbers; `commands` gives the command of each variant."""
    data: dict[str, Any] = {
        "command": made.command,
        "commands": commands or {},
        "device": made.device,
        "versions": dict(made.versions),
        "counts": counts(results),
        "cases": [result.as_json() for result in results],
    }
    return json.dumps(data, indent=1) + "\n"


def as_markdown(
    find_variants: Iterable[Variant],
    results: Sequence[Result],
    made: RunDescription,
    commands: Sequence[str] = (),
) -> str:
    """The page; `commands` gave the results, if several did."""
    gpu = (
        f"The kernels of {made.device} ran."
        if made.on_gpu
        else "No GPU was here: this is the CPU's arithmetic."
    )
    quoted = _quote(commands or (made.command,))
    lines = ["# Parity", "", f"{quoted}, {_versions(made)}. {gpu}", "", _LEGEND]
    by_name = {
        variant.name: [r for r in results if r.variant == variant.name] for variant in find_variants
    }
    lines += _variants_table(find_variants, by_name)
    for name, found in by_name.items():
        lines += ["", f"## {name}", "", *_cases_table(found)]
    return "\n".join(lines) + "\n"


def _quote(commands: Sequence[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


def _versions(made: RunDescription) -> str:
    return ", ".join(f"{name} {version}" for name, version in made.versions)


def _variants_table(
    find_variants: Iterable[Variant], by_name: Mapping[str, Sequence[Result]]
) -> list[str]:
    rows = []
    for variant in find_variants:
        found = by_name[variant.name]
        rows.append(
            (
                f"[{variant.name}](#{variant.name})",
                f"`{variant.parent.rpartition('.')[2]}`",
                ", ".join(variant.parts),
                *(str(count) for count in counts(found).values()),
                format_lines(found),
                format_mutants(found),
            )
        )
    numbers = ("PASS", "WARN", "FAIL", "NONE", "lines run", "mutants seen")
    return table_lines(("variant", "parent", "parts", *numbers), rows, numbers=numbers)


def _cases_table(found: Sequence[Result]) -> list[str]:
    numbers = ("difference", "bound", "planted")
    rows = []
    for result in found:
        cells = map(number, (result.difference, result.bound, result.seen))
        rows.append((result.case, result.status, *cells, result.note))
    return table_lines(("case", "", *numbers, ""), rows, numbers=numbers)


def format_lines(results: Iterable[Result]) -> str:
    """ "254 of 256" changed lines ran; nothing where nobody asked."""
    return "".join(
        f"{each.lines.ran} of {each.lines.changed}" for each in results if each.lines is not None
    )


def format_mutants(results: Iterable[Result]) -> str:
    """ "23 of 24" mutants seen, of those that run and compute something else."""
    found = [counted(each.fates) for each in results if each.fates]
    return "".join(f"{each['seen']} of {each['seen'] + each['unseen']}" for each in found)


def number(value: float | None) -> str:
    """Short: nothing, 0, or two digits."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.1e}"


def write_report(
    folder: Path, gallery: Sequence[Variant], results: Sequence[Result], made: RunDescription
) -> None:
    """`parity.md`, `parity.json` and `mutants.md` in `folder`.

    Of the variants of `gallery` without results, the report keeps what it said before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = read_record(folder / "parity.json", made.device, dict(made.versions))
    names = [variant.name for variant in gallery]
    record = earlier.with_newer(make_record(results, made.command)).of(names)
    reported = [variant for variant in gallery if variant.name in record.commands]
    commands = tuple(dict.fromkeys(record.commands.values()))
    ordered = sorted(record.results, key=lambda result: names.index(result.variant))
    mutants = format_mutants_page(reported, ordered, _quote(commands), _versions(made))
    replace_file(folder / "parity.json", as_json(ordered, made, record.commands).encode())
    replace_file(folder / "parity.md", as_markdown(reported, ordered, made, commands).encode())
    replace_file(folder / "mutants.md", mutants.encode())


_MUTANTS_LEGEND = """\
A *mutant* is one small error in a line that the variant adds or changes: an operator, a constant,
an index or a slice off by one, an argument or a keyword left out, two operands swapped, a term
dropped, a condition inverted, a gradient detached, a statement removed. Each mutant is planted, and
the cases of `patchgen verify` that run its line are run. Those come first that bring another
padding, head, configuration, way to call the model or changed line. What only crashes is left out:
each error is first evaluated beside the right expression, and has to give the same types, shapes
and dtypes.

- **seen**: one of the cases fails, by its usual bound.
- **unseen**: no case fails, and some compute something else. Each is listed below.
- **no difference**: all cases that run its line, in every dtype, give the same outputs and
  gradients, bit for bit.
- **crashed**: it crashes in some case, and no case sees it. It counts as neither seen nor unseen,
  because nobody can overlook it.

Mutants are made only of lines that some case runs (*made*). *On lines not run* is the number of
mutants that lines without a case would give; those lines are listed below. Of the first, a sample
is planted. It is drawn by the digests of their texts and of the variant's name, so it is the same
in every run: one of each line, then a second of each, up to the number that the command gives.
"""


def format_mutants_page(
    variants: Iterable[Variant], results: Sequence[Result], commands: str, versions: str
) -> str:
    """The page; `commands` is Markdown, of those that gave the results."""
    found = {variant.name: _fates_of(variant.name, results) for variant in variants}
    every = [fate for fates, _ in found.values() for fate in fates]
    total = counted(every)
    decided = total["seen"] + total["unseen"]
    part = f"{100 * total['seen'] / decided:.1f} %" if decided else "none"
    of = f"of {len(found)} variant{'s' if len(found) != 1 else ''}, those of the table"
    seen = f"Seen: {total['seen']:,} of {decided:,} that run and make a difference, {part}."
    lines = ["# Mutants", "", f"{commands}, {versions}: {of}.", "", _MUTANTS_LEGEND, seen, ""]
    rows = []
    for name, (fates, run) in found.items():
        ran = ("", "", "")
        if run is not None:
            ran = f"{run.ran} of {run.changed}", f"{run.unplanted:,}", f"{run.mutants:,}"
        rows.append((name, *ran, *(f"{n:,}" for n in (len(fates), *counted(fates).values()))))
    runs = [run for _, run in found.values() if run is not None]
    sums = sum(run.unplanted for run in runs), sum(run.mutants for run in runs), len(every)
    rows.append(("**all**", "", *(f"{n:,}" for n in (*sums, *total.values()))))
    heads = ("lines run", "on lines not run", "made", "planted", *OUTCOMES)
    lines += table_lines(("variant", *heads), rows, numbers=heads)
    for name, (fates, run) in found.items():
        lines += _of_variant(name, fates, run)
    return "\n".join(lines) + "\n"


def _fates_of(
    variant: str, results: Sequence[Result]
) -> tuple[tuple[MutantResult, ...], LinesRun | None]:
    own = [result for result in results if result.variant == variant]
    lines = next((result.lines for result in own if result.lines is not None), None)
    return tuple(fate for result in own for fate in result.fates), lines


def _of_variant(name: str, fates: Sequence[MutantResult], run: LinesRun | None) -> Iterator[str]:
    unseen = [fate for fate in fates if fate.outcome == "unseen"]
    missed = [] if run is None else [*run.not_run]
    refused = [] if run is None else [*run.refusals]
    if not (unseen or missed or refused):
        return
    yield from ("", f"## {name}", "")
    for heading, lines in (
        ("Lines that did not run", missed),
        ("Lines that only refuse, and did not run", refused),
    ):
        if lines:
            yield f"{heading}: {', '.join(str(number) for number, _ in lines)}."
            yield ""
    for fate in unseen:
        yield f"`{fate.place}`, {fate.says}: {fate.note}.\n"
        yield f"```diff\n{fate.diff}\n```\n"
