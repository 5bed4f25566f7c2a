"""`patchgen verify`: run the cases, show the progress, print a table or JSON, write a report."""

from __future__ import annotations

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
    from patchgen.verify.variants import Variant


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
    """Verify the variants `names`; 1 if a case failed, or nothing of a variant was compared."""
    from patchgen.verify.report.pages import find_best_device
    from patchgen.verify.report.result import find_unproven
    from patchgen.verify.run.children import Limits, Wanted
    from patchgen.verify.run.children import verify as run
    from patchgen.verify.selection import DTYPES, Plan
    from patchgen.verify.variants import find_variants, home_of

    try:
        chosen = find_variants(home_of(names), names)
        gallery = find_variants(home_of(names), [])
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    if not names and not everything:
        raise click.UsageError(
            f"name variants or give --all: {', '.join(variant.name for variant in chosen)}"
        )
    plan = Plan(full, tuple(dtypes) or DTYPES, lines=True, mutants=_number_of(mutants))
    wanted = Wanted(plan, device or find_best_device(), Limits(seconds, megabytes))
    listeners: list[Callable[[Result], None]] = [_Printer(form, verbose)]
    if report is not None:
        listeners.append(_Reporter(Path(report), gallery, wanted))

    def progress(result: Result) -> None:
        for listener in listeners:
            listener(result)

    results = run(chosen, wanted, jobs, progress)
    if report is not None:
        _write(Path(report), gallery, results, wanted)
    _show(chosen, results, wanted, form)
    empty = find_unproven([variant.name for variant in chosen], results)
    for name in empty:
        sys.stderr.write(
            f"{name}: nothing was compared, so nothing is proven; --verbose shows why\n"
        )
    return int(bool(empty) or any(result.status == "FAIL" for result in results))


def _number_of(mutants: str) -> int | None:
    """The number of mutants that "25", "all" or "none" means; None is all."""
    if mutants in ("all", "none"):
        return None if mutants == "all" else 0
    if not mutants.isdecimal():
        raise click.UsageError(f"--mutants takes a number, all or none, not {mutants!r}")
    return int(mutants)


class _Printer:
    """Prints results on stderr: all if verbose, else WARN and FAIL; counts them on a terminal."""

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


class _Reporter:
    """Writes the report after each variant, so that an interrupted run has one too."""

    def __init__(self, folder: Path, gallery: Sequence[Variant], wanted: Wanted) -> None:
        self.folder, self.gallery, self.wanted = folder, gallery, wanted
        self.found: list[Result] = []

    def __call__(self, result: Result) -> None:
        from patchgen.verify.report.result import MUTANTS

        self.found.append(result)
        if result.case != MUTANTS:
            return
        done = {each.variant for each in self.found if each.case == MUTANTS}
        results = [each for each in self.found if each.variant in done]
        _write(self.folder, self.gallery, results, self.wanted)


def _unseen(result: Result) -> str:
    """Each mutant that no case found, as a diff."""
    unseen = [fate for fate in result.fates if fate.outcome == "unseen"]
    return "".join(
        f"  {fate.place} in {fate.function or 'the module'} ({fate.note})\n{fate.diff}\n"
        for fate in unseen
    )


def _show(
    chosen: Sequence[Variant],
    results: Sequence[Result],
    wanted: Wanted,
    form: str,
) -> None:
    from patchgen.verify.report.pages import as_json, describe_run

    if form == "json":
        made = describe_run("patchgen " + " ".join(_arguments()), wanted.device)
        sys.stdout.write(as_json(results, made))
        return
    sys.stderr.write("" if not sys.stderr.isatty() else "\r\x1b[2K")
    sys.stdout.write(_table(chosen, results))


def _write(
    folder: Path, gallery: Sequence[Variant], results: Sequence[Result], wanted: Wanted
) -> None:
    from patchgen.verify.report.pages import describe_run, write_report

    made = describe_run("patchgen " + " ".join(_arguments()), wanted.device)
    write_report(folder, gallery, results, made)


def _arguments() -> list[str]:
    """The command line without paths of this machine, for the report."""
    given = sys.argv[1:]
    if "--report" in given:
        at = given.index("--report")
        given = given[:at] + given[at + 2 :]
    return [os.path.basename(word) if os.path.isabs(word) else word for word in given]


def _table(chosen: Sequence[Variant], results: Sequence[Result]) -> str:
    from patchgen.verify.report.pages import format_lines, format_mutants, number
    from patchgen.verify.report.result import counts

    rows = []
    for variant in chosen:
        found = [result for result in results if result.variant == variant.name]
        statuses = [str(count) for count in counts(found).values()]
        largest = [number(_largest_difference(found, kind)) for kind in _KINDS]
        ran, mutants = format_lines(found), format_mutants(found)
        rows.append((variant.name, *statuses, *largest, ran, mutants))
    statuses = ["PASS", "WARN", "FAIL", "NONE"]
    return table(("variant", *statuses, *_KINDS, "lines run", "mutants seen"), rows)


def _largest_difference(results: Sequence[Result], dtype: str) -> float | None:
    """The largest difference from the parent among the cases of `dtype`; None without one."""
    largest = None
    for result in results:
        # Cases with planted errors must differ: they say nothing about the variant.
        if (
            result.difference is None
            or "planted" in result.case
            or dtype not in result.case.split()
        ):
            continue
        largest = max(largest or 0.0, result.difference)
    return largest


_KINDS = ("float64", "float32", "bfloat16")
