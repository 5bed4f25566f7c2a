"""`patchgen verify`: run the cases, show the progress, print a table or JSON, write a report."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.cli.options import ABOVE_0, COUNT, NEW_FOLDER, names_or_paths, option, text_or_json
from patchgen.cli.report import table
from patchgen.cli.requirements import needs_models

if TYPE_CHECKING:
    from patchgen.verify.report import Result
    from patchgen.verify.run import Wanted
    from patchgen.verify.variants import Variant

DTYPES = ("float64", "float32", "bfloat16")  # those of `verify.plan`, which imports torch


@click.command()
@names_or_paths
@option("--all everything", "Every variant that patchgen.lock records.")
@option("--full", "All cases, heads and ways to generate, inductor, however long it takes.")
@option(
    "--dtype dtypes", "Only this dtype; may be repeated.", multiple=True, type=click.Choice(DTYPES)
)
@option("--seed N", "Of weights, inputs and dropout.", type=int, default=0)
@option("--device NAME", "Where models run; default: cuda if present.")
@option(
    "-j --jobs N",
    "Variants at a time; default: one for each core, or one on a GPU.",
    type=COUNT,
    default=0,
)
@option("--mutants N|all|none", "Errors to plant in the changed lines.", default="25")
@option(
    "--fail-on", "Fail too if no case notices one of these errors.", type=click.Choice(["unseen"])
)
@text_or_json
@option("--report DIR", "Write parity.md, parity.json and mutants.md into DIR.", type=NEW_FOLDER)
@option("--seconds S", "Processor time that a case may take.", type=ABOVE_0, default=60)
@option("--megabytes MB", "Memory that a case may take.", type=ABOVE_0, default=3072)
@option("-v --verbose", "Print every case as it ends.")
@needs_models()
def verify(
    names: Sequence[str],
    *,
    everything: bool,
    full: bool,
    dtypes: Sequence[str],
    mutants: str,
    seed: int,
    device: str | None,
    jobs: int,
    form: str,
    report: str | None,
    verbose: bool,
    seconds: float,
    megabytes: float,
    fail_on: str | None = None,
) -> int:
    """Both models are tiny and have random weights.  The cases that tell most come first, and a
    case that fails is printed at once.  Without --full a variant gets a minute of the processor.
    The report says which changed lines ran.  patchgen also plants small errors in those lines, to
    see that the comparison notices them.  This needs torch and transformers.  Exit code 1: a case
    failed, or nothing of a variant was compared.

    \b
    Example:
      patchgen verify llama_loss --dtype float32 --report report
    """
    from patchgen.verify.report import find_best_device, find_unproven
    from patchgen.verify.run import Limits, Wanted
    from patchgen.verify.run import verify as run
    from patchgen.verify.variants import SECONDS, Plan, find_variants, home_of

    try:
        chosen = find_variants(home_of(names), names)
        gallery = find_variants(home_of(names), [])
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    if not names and not everything:
        raise click.UsageError(
            f"name variants or give --all: {', '.join(variant.name for variant in chosen)}"
        )
    plan = Plan(
        full,
        tuple(dtypes) or DTYPES,
        lines=True,
        mutants=_number_of(mutants),
        seconds=None if full else SECONDS,
        seed=seed,
    )
    wanted = Wanted(plan, device or find_best_device(), Limits(seconds, megabytes))
    printer = _Printer(form, verbose)
    reporter = _Reporter(Path(report), gallery, wanted) if report is not None else None

    def progress(result: Result) -> None:
        printer(result)
        if reporter is not None:
            reporter(result)

    results = run(chosen, wanted, jobs, progress, printer.began)
    if report is not None:
        _write(Path(report), gallery, results, wanted)
    _show(chosen, results, wanted, form)
    empty = find_unproven([variant.name for variant in chosen], results)
    for name in empty:
        sys.stderr.write(
            f"{name}: nothing was compared, so nothing is proven; --verbose shows why\n"
        )
    return int(bool(empty) or has_failed(results, fail_on))


def has_failed(results: Sequence[Result], fail_on: str | None) -> bool:
    """Whether a case failed; with `fail_on` "unseen" also whether none noticed a planted error."""
    unseen = fail_on == "unseen" and any(map(_unseen, results))
    return unseen or any(result.status == "FAIL" for result in results)


def _number_of(mutants: str) -> int | None:
    """The number of mutants that "25", "all" or "none" means; None is all."""
    if mutants in ("all", "none"):
        return None if mutants == "all" else 0
    if not mutants.isdecimal():
        raise click.UsageError(f"--mutants takes a number, all or none, not {mutants!r}")
    return int(mutants)


class _Printer:
    """Prints on stderr what comes, and on a terminal what runs now.

    Of those that say the same the first is printed, unless all results are.
    """

    def __init__(self, form: str, verbose: bool) -> None:
        self.verbose, self.on_terminal = verbose, form == "text" and sys.stderr.isatty()
        self.met: set[str] = set()
        self.failed = 0
        self.began_at = time.monotonic()

    def __call__(self, result: Result) -> None:
        cause = f"{result.variant}: {result.cause or result.note}"
        is_new = result.status in ("WARN", "FAIL") and cause not in self.met
        self.met.add(cause)
        self.failed += result.status == "FAIL"
        if self.verbose or is_new:
            why = f"\n  {result.cause}" if result.cause else ""
            self.write(f"{result}{why}\n{_unseen(result)}")

    def began(self, variant: str, case: str, done: int, todo: int) -> None:
        """Show what runs now, in one line."""
        if not self.on_terminal:
            return
        seconds = time.monotonic() - self.began_at
        failed = f", {self.failed} FAIL" if self.failed else ""
        line = f"{variant}: {done} of {todo} cases{failed}, {seconds:.0f} s; {case}"
        sys.stderr.write(f"\r\x1b[2K{line[: shutil.get_terminal_size().columns - 1]}")
        sys.stderr.flush()

    def write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}" if self.on_terminal else text)
        sys.stderr.flush()


class _Reporter:
    """Writes the report after each variant, so that an interrupted run has one too."""

    def __init__(self, folder: Path, gallery: Sequence[Variant], wanted: Wanted) -> None:
        self.folder, self.gallery, self.wanted = folder, gallery, wanted
        self.found: list[Result] = []

    def __call__(self, result: Result) -> None:
        from patchgen.verify.report import LINES, MUTANTS

        self.found.append(result)
        if result.case not in (LINES, MUTANTS):
            return
        done = {each.variant for each in self.found if each.case == LINES}
        results = [each for each in self.found if each.variant in done]
        _write(self.folder, self.gallery, results, self.wanted)


def _unseen(result: Result) -> str:
    """Each mutant that no case found, as a diff."""
    unseen = [fate for fate in result.fates if fate.outcome == "unseen"]
    return "".join(
        f"  {fate.place} in {fate.function} ({fate.note})\n{fate.diff}\n" for fate in unseen
    )


def _show(chosen: Sequence[Variant], results: Sequence[Result], wanted: Wanted, form: str) -> None:
    from patchgen.verify.report import LEFT_OUT, as_json, causes, describe_run

    if form == "json":
        made = describe_run("patchgen " + " ".join(_arguments()), wanted.device)
        sys.stdout.write(as_json(results, made))
        return
    sys.stderr.write("" if not sys.stderr.isatty() else "\r\x1b[2K")
    for cause, failed in causes(results):
        how_many = f"{len(failed)} cases fail of it, first" if len(failed) > 1 else "in"
        sys.stdout.write(f"FAIL {cause}; {how_many} {failed[0].case}\n")
    sys.stdout.write(_table(chosen, results))
    for result in results:
        if result.case == LEFT_OUT:
            sys.stdout.write(f"{result.variant}: {result.note}\n")


def _write(
    folder: Path, gallery: Sequence[Variant], results: Sequence[Result], wanted: Wanted
) -> None:
    from patchgen.verify.report import describe_run, write_report

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
    from patchgen.verify.report import counts, format_lines, format_mutants

    rows = []
    for variant in chosen:
        found = [result for result in results if result.variant == variant.name]
        statuses = [str(count) for count in counts(found).values()]
        shares = [_largest_share(found, dtype) for dtype in DTYPES]
        rows.append((variant.name, *statuses, *shares, format_lines(found), format_mutants(found)))
    heads = ("PASS", "WARN", "FAIL", "NONE", *DTYPES, "lines run", "mutants seen")
    return table(("variant", *heads), rows)


def _largest_share(results: Sequence[Result], dtype: str) -> str:
    """The largest difference of the cases of `dtype` in parts of its bound: "8 %", or "equal"."""
    shares = [
        result.difference / result.bound if result.bound else result.difference and math.inf
        for result in results
        # Cases with planted errors must differ: they say nothing about the variant.
        if result.difference is not None
        and result.bound is not None
        and "planted" not in result.case
        and dtype in result.case.split()
    ]
    largest = max((share or 0.0 for share in shares), default=None)
    if not largest:
        return "" if largest is None else "equal"
    return f"{largest:.0%}" if largest < 100 else "far off"
