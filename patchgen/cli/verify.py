"""`patchgen verify`: runs the cases, shows how far it is, prints a table or JSON, and writes a report."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.cli.report import table

if TYPE_CHECKING:
    from patchgen.verify.report.result import Result
    from patchgen.verify.run.children import Wanted
    from patchgen.verify.variants import Subject


def verify(
    names: Sequence[str],
    *,
    everything: bool,
    full: bool,
    dtypes: Sequence[str],
    mutants: str,
    device: str | None,
    jobs: int,
    form: str,
    report: str | None,
    verbose: bool,
    seconds: float,
    megabytes: float,
) -> int:
    """Verify the variants that `names` means; the exit code: 1 where a case failed, or nothing was compared."""
    _insist_on_models()
    from patchgen.verify.report.pages import best_device
    from patchgen.verify.report.result import unproven
    from patchgen.verify.run.children import Limits, Wanted
    from patchgen.verify.run.children import verify as run
    from patchgen.verify.selection import DTYPES, Plan
    from patchgen.verify.variants import home_of, subjects

    try:
        chosen = subjects(home_of(names), names)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    if not names and not everything:
        raise click.UsageError(
            f"name variants, or say --all: {', '.join(subject.name for subject in chosen)}"
        )
    plan = Plan(full, tuple(dtypes) or DTYPES, lines=True, mutants=_number_of(mutants))
    wanted = Wanted(plan, device or best_device(), Limits(seconds, megabytes))
    hear: list[Callable[[Result], None]] = [_teller(form, verbose)]
    if report is not None:
        hear.append(_reporter(Path(report), chosen, wanted))

    def progress(result: Result) -> None:
        for each in hear:
            each(result)

    results = run(chosen, wanted, jobs, progress)
    _show(chosen, results, wanted, form, report)
    empty = unproven([subject.name for subject in chosen], results)
    for name in empty:
        sys.stderr.write(
            f"{name}: nothing was compared, and nothing is proven; --verbose says why\n"
        )
    return int(bool(empty) or any(result.status == "FAIL" for result in results))


def _number_of(mutants: str) -> int | None:
    """How many "25", "all" or "none" are; None: all."""
    if mutants in ("all", "none"):
        return None if mutants == "all" else 0
    if not mutants.isdecimal():
        raise click.UsageError(f"--mutants takes a number, all or none, and not {mutants!r}")
    return int(mutants)


def _insist_on_models() -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise click.UsageError(
                f"verify runs models and needs {package}: pip install 'patchgen[models]'"
            )


class _teller:
    """Says each result on stderr: all of them if verbose, else what did not pass; a counter on a terminal."""

    def __init__(self, form: str, verbose: bool) -> None:
        self.verbose, self.quiet_dots = verbose, form != "text" or not sys.stderr.isatty()
        self.done = 0

    def __call__(self, result: Result) -> None:
        self.done += 1
        if self.verbose or result.status in ("WARN", "FAIL"):
            sys.stderr.write(f"{self._clear()}{result}\n{_unseen(result)}")
        if not self.quiet_dots:
            sys.stderr.write(f"{self._clear()}{self.done} cases; {result.variant}")
            sys.stderr.flush()

    def _clear(self) -> str:
        return "" if self.quiet_dots else "\r\x1b[2K"


class _reporter:
    """Writes the report of the variants that are done, whenever one more is: a long run may be broken off."""

    def __init__(self, folder: Path, chosen: Sequence[Subject], wanted: Wanted) -> None:
        self.folder, self.chosen, self.wanted = folder, chosen, wanted
        self.found: list[Result] = []

    def __call__(self, result: Result) -> None:
        from patchgen.verify.report.result import MUTANTS

        self.found.append(result)
        if result.case != MUTANTS:
            return
        done = {each.variant for each in self.found if each.case == MUTANTS}
        subjects = [subject for subject in self.chosen if subject.name in done]
        _write(
            self.folder,
            subjects,
            [each for each in self.found if each.variant in done],
            self.wanted,
        )


def _unseen(result: Result) -> str:
    """Each mutant that no case saw, as a diff."""
    unseen = [fate for fate in result.fates if fate.outcome == "unseen"]
    return "".join(
        f"  {fate.place} in {fate.function or 'the module'} ({fate.note})\n{fate.diff}\n"
        for fate in unseen
    )


def _show(
    chosen: Sequence[Subject],
    results: Sequence[Result],
    wanted: Wanted,
    form: str,
    report: str | None,
) -> None:
    from patchgen.verify.report.pages import as_json, circumstances

    if report is not None:
        _write(Path(report), chosen, results, wanted)
    if form == "json":
        made = circumstances("patchgen " + " ".join(_arguments()), wanted.device)
        sys.stdout.write(as_json(results, made))
        return
    sys.stderr.write("" if not sys.stderr.isatty() else "\r\x1b[2K")
    sys.stdout.write(_table(chosen, results))


def _write(
    folder: Path, chosen: Sequence[Subject], results: Sequence[Result], wanted: Wanted
) -> None:
    from patchgen.verify.report.pages import circumstances, write_report

    made = circumstances("patchgen " + " ".join(_arguments()), wanted.device)
    write_report(folder, chosen, results, made)


def _arguments() -> list[str]:
    """The command line, without the place that the report went to, which is this machine's."""
    given = sys.argv[1:]
    for name in ("--report",):
        if name in given:
            at = given.index(name)
            given = given[:at] + given[at + 2 :]
    return [os.path.basename(word) if os.path.isabs(word) else word for word in given]


def _table(chosen: Sequence[Subject], results: Sequence[Result]) -> str:
    from patchgen.verify.report.pages import lines_told, mutants_told, number
    from patchgen.verify.report.result import counts

    rows = []
    for subject in chosen:
        found = [result for result in results if result.variant == subject.name]
        numbers = [
            result for result in found if result.apart is not None and "planted" not in result.case
        ]
        widest = [
            max((r.apart or 0.0 for r in numbers if f" {kind} " in f" {r.case} "), default=None)
            for kind in _KINDS
        ]
        shown = map(str, counts(found).values())
        rows.append(
            (subject.name, *shown, *map(number, widest), lines_told(found), mutants_told(found))
        )
    return table(
        ("variant", "PASS", "WARN", "FAIL", "NONE", *_KINDS, "lines run", "mutants seen"), rows
    )


_KINDS = ("float64", "float32", "bfloat16")
