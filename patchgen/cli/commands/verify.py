"""`patchgen verify`: run the cases, show the progress, print a table or JSON, write a report."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import terminal
from patchgen.cli.options import (
    ABOVE_0,
    FROM_1,
    NEW_FOLDER,
    jobs,
    names_or_paths,
    needs_models,
    option,
    require,
    text_or_json,
)
from patchgen.cli.report import print_json, table

if TYPE_CHECKING:
    from patchgen.verifying.report import Proof, Result, RunDescription
    from patchgen.verifying.variants import Variant

NOT_PROVEN = 4  # the exit code where no case failed, and not everything has run
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
@jobs
@option("--mutants N|all|none", "Errors to plant in the changed lines.", default="25")
@option(
    "--fail-on", "Fail too if no case notices one of these errors.", type=click.Choice(["unseen"])
)
@text_or_json
@option(
    "--out report DIR", "Write parity.md, parity.json and mutants.md into DIR.", type=NEW_FOLDER
)
@option("--seconds S", "Processor time that a case may take.", type=ABOVE_0, default=60)
@option("--megabytes MB", "Memory that a case may take.", type=ABOVE_0, default=3072)
@option("-v --verbose", "Print every case as it ends.")
@option("--checkpoint DIR|ID", "Compare with these weights, in place of tiny random ones.")
@option("--data FILE", "The text that both are given, as in `train`; with --checkpoint.")
@option("--steps N", "Of training both, with --checkpoint.", type=click.IntRange(0), default=10)
@option("--length N", "Tokens of a row, with --checkpoint.", type=FROM_1, default=128)
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
    checkpoint: str | None = None,
    data: str | None = None,
    steps: int = 10,
    length: int = 128,
    fail_on: str | None = None,
) -> int:
    """Both models are tiny and have random weights.  The cases that tell most come first, and a
    case that fails is printed at once.  Without --full a variant gets a minute of the processor.
    The report says which changed lines ran.  patchgen also plants small errors in those lines, to
    see that the comparison notices them.  This needs torch and transformers.

    With --checkpoint and --data both have real weights and text: logits, drift by layer, steps of
    training, and greedy text are compared.  This needs patchgen's extra "train".

    The first line of each variant is its verdict: proven, not proven with what has not run, or
    fails.  Exit code 1: a case failed.  4: none did, and something is not proven.

    \b
    Example:
      patchgen verify llama_loss --dtype float32 --out report
      patchgen verify llama_loss --checkpoint SmolLM2-135M --data README.md
    """
    if checkpoint or data:
        if not (checkpoint and data) or everything or full or fail_on:
            what = "--checkpoint and --data need each other, and no --all, --full or --fail-on"
            raise click.UsageError(what)
        require("accelerate datasets", "verify --checkpoint reads data, trains and", "train")
        more = {"length": length, "steps": steps, "device": device, "seed": seed}
        return _on_checkpoint(names, dtypes, checkpoint, data, report, form, more)
    from patchgen.verifying.report import describe_run, find_device, find_proofs
    from patchgen.verifying.run import Limits, Wanted
    from patchgen.verifying.run import verify as run
    from patchgen.verifying.variants import SECONDS, Plan

    chosen, gallery = _choose(names, everything)
    limit = None if full else SECONDS
    plan = Plan(full, tuple(dtypes) or DTYPES, True, _number_of(mutants), limit, seed)
    device = find_device(device)
    about = describe_run("patchgen " + " ".join(_arguments()), device, chosen)
    on_terminal = form == "text" and sys.stderr.isatty()
    show = _Progress(gallery, about, report, verbose, on_terminal)
    wanted = Wanted(plan, device, Limits(seconds, megabytes))
    results = run(chosen, wanted, jobs, show, show.began)
    show.write_report(results)
    proofs = find_proofs([variant.name for variant in chosen], results)
    _show(chosen, results, proofs, about, form)
    return _exit_code(results, proofs, fail_on)


def _exit_code(
    results: Sequence[Result], proofs: Mapping[str, Proof], fail_on: str | None = None
) -> int:
    if has_failed(results, fail_on):
        return 1
    is_proven = all(proof.verdict == "proven" for proof in proofs.values())
    return 0 if is_proven else NOT_PROVEN


def _on_checkpoint(
    names: Sequence[str],
    dtypes: Sequence[str],
    checkpoint: str,
    data: str,
    report: str | None,
    form: str,
    more: dict[str, Any],
) -> int:
    """Compare on real weights and text, and show what is found, also where that ends early."""
    from patchgen.training.real.found import report_data, results_of, write_real
    from patchgen.training.real.run import fill, plan_runs
    from patchgen.verifying.report import describe_run, find_device, find_proofs

    chosen, _ = _choose(names, False)
    more["device"] = find_device(more["device"])
    about = describe_run("patchgen " + " ".join(_arguments()), more["device"], chosen)
    every = plan_runs(chosen, dtypes, checkpoint, data, **more)
    shown = form == "text" and sys.stderr.isatty()
    stopped = fill(every, terminal.write_status if shown else lambda what: None)
    results = results_of(every)
    proofs = find_proofs([variant.name for variant in chosen], results)
    missing = write_real(Path(report), every, about) if report else ""
    if missing:
        terminal.say(missing, err=True)
    if form == "json":
        _print_data(report_data(every, about))
    else:
        _say_verdicts(results, proofs)
        for found in every:
            terminal.say(f"\n{found.title}: {found.about}")
            for heads, *rows in found.tables():
                terminal.write(f"\n{table(heads, rows)}")
            terminal.write_lines(map(repr, found.texts))
    if stopped is not None:
        raise stopped
    return _exit_code(results, proofs)


def _choose(names: Sequence[str], everything: bool) -> tuple[Sequence[Variant], Sequence[Variant]]:
    """The variants that `names` are, and all of their project."""
    from patchgen.verifying.variants import find_variants, home_of

    chosen, gallery = (find_variants(home_of(names), which) for which in (names, []))
    if not names and not everything:
        listed = ", ".join(variant.name for variant in chosen)
        raise click.UsageError(f"name variants or give --all: {listed}")
    return chosen, gallery


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


@dataclass
class _Progress:
    """Prints on stderr what comes, and on a terminal what runs now; keeps the report up to date.

    Of those that say the same the first is printed, unless all results are.
    """

    gallery: Sequence[Variant]
    about: RunDescription
    report: str | None
    verbose: bool
    on_terminal: bool
    causes: set[str] = field(default_factory=set)
    results: list[Result] = field(default_factory=list)
    began_at: float = field(default_factory=time.monotonic)

    def __call__(self, result: Result) -> None:
        from patchgen.verifying.report import LINES, MUTANTS

        cause = f"{result.variant}: {result.cause or result.note}"
        is_new = result.status in ("WARN", "FAIL") and cause not in self.causes
        self.causes.add(cause)
        self.results.append(result)
        if self.verbose or is_new:
            why = f"\n  {result.cause}" if result.cause else ""
            if self.on_terminal:
                terminal.write_status("")
            terminal.write(f"{result}{why}\n{_unseen(result)}", err=True)
        # After each variant, so that an interrupted run has a report too.
        if result.case in (LINES, MUTANTS):
            done = {ended.variant for ended in self.results if ended.case == LINES}
            self.write_report([ended for ended in self.results if ended.variant in done])

    def began(self, variant: str, case: str, done: int, todo: int) -> None:
        """Show what runs now, in one line."""
        if not self.on_terminal:
            return
        seconds = time.monotonic() - self.began_at
        failures = sum(result.status == "FAIL" for result in self.results)
        count = f"{done} of {todo} cases"
        if failures:
            count += f", {failures} FAIL"
        terminal.write_status(f"{variant}: {count}, {seconds:.0f} s; {case}")

    def write_report(self, results: Sequence[Result]) -> None:
        """Write the report of `results`, where one is wanted."""
        from patchgen.verifying.report import write_report

        if self.report is not None:
            write_report(Path(self.report), self.gallery, results, self.about)


def _unseen(result: Result) -> str:
    """Each mutant that no case found, as a diff."""
    text = ""
    for fate in result.fates:
        if fate.outcome == "unseen":
            text += f"  {fate.place} in {fate.function} ({fate.note})\n{fate.diff}\n"
    return text


def _show(
    chosen: Sequence[Variant],
    results: Sequence[Result],
    proofs: Mapping[str, Proof],
    about: RunDescription,
    form: str,
) -> None:
    from patchgen.verifying.report import MORE, as_data

    if form == "json":
        _print_data(as_data(results, about))
        return
    _say_verdicts(results, proofs)
    terminal.write(_table(chosen, results))
    for result in results:
        if result.case == MORE:
            terminal.say(f"{result.variant}: {result.note}")


def _print_data(data: dict[str, Any]) -> None:
    data["run"] = data.pop("command")
    print_json("verify", data)


def _say_verdicts(results: Sequence[Result], proofs: Mapping[str, Proof]) -> None:
    from patchgen.verifying.report import causes

    if sys.stderr.isatty():
        terminal.write_status("")
    for name, proof in proofs.items():
        terminal.say(f"{name}: {proof}")
    for cause, failed in causes(results):
        how_many = f"{len(failed)} cases fail of it, first" if len(failed) > 1 else "in"
        terminal.say(f"FAIL {cause}; {how_many} {failed[0].case}")


def _arguments() -> list[str]:
    """The command line without paths of this machine, for the report."""
    words = sys.argv[1:]
    for flag in {"--out", "--report"}.intersection(words):
        at = words.index(flag)
        words = words[:at] + words[at + 2 :]
    return [os.path.basename(word) if os.path.isabs(word) else word for word in words]


def _table(chosen: Sequence[Variant], results: Sequence[Result]) -> str:
    from patchgen.verifying.report import counts, format_lines, format_mutants

    rows = []
    for variant in chosen:
        mine = [result for result in results if result.variant == variant.name]
        statuses = [str(count) for count in counts(mine).values()]
        shares = [_largest_share(mine, dtype) for dtype in DTYPES]
        lines = format_lines(mine)
        mutants = format_mutants(mine)
        rows.append((variant.name, *statuses, *shares, lines, mutants))
    heads = ("PASS", "WARN", "FAIL", "NONE", *DTYPES, "lines run", "mutants seen")
    return table(("variant", *heads), rows)


def _largest_share(results: Sequence[Result], dtype: str) -> str:
    """The largest difference of the cases of `dtype` in parts of its bound: "8 %", or "equal"."""
    shares: list[float] = []
    for result in results:
        # Cases with planted errors must differ: they say nothing about the variant.
        if "planted" in result.case or dtype not in result.case.split():
            continue
        if result.difference is None or result.bound is None:
            continue
        if not result.difference:
            shares.append(0.0)
        else:
            shares.append(result.difference / result.bound if result.bound else math.inf)
    if not shares:
        return ""
    largest = max(shares)
    if not largest:
        return "equal"
    return f"{largest:.0%}" if largest < 100 else "far off"
