"""`patchgen train`: read the arguments, join the processes of a run, print its result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchgen.cli.report import exit_code, table
from patchgen.syntax.errors import Location, PatchgenError, problems_of

if TYPE_CHECKING:
    from patchgen.training.parallel.engine import Engine

GIB = 2**30
TEMPLATES = {
    "steps": "{:.0f}",
    "loss": "{:.4f}",
    "eval_loss": "{:.4f}",
    "eval_accuracy": "{:.3f}",
    "tokens_a_second": "{:,.0f}",
    "mfu": "{:.1%}",
}


def train(argv: Sequence[str]) -> int:
    """Start a run, or continue one."""
    from patchgen.training.loop.options import output_of, parse
    from patchgen.training.loop.run import resume_hint
    from patchgen.training.loop.run import train as run
    from patchgen.training.parallel.engine import parse_engine

    options, given = parse(argv)
    engine = parse_engine(options.engine, os.environ)
    with _together(engine):
        try:
            ended = run(options, given, engine)
        except KeyboardInterrupt:
            if engine.is_first:
                print(resume_hint(output_of(options, given)), file=sys.stderr)
            raise
    if engine.is_first:
        show = _show_trials if options.search else _show
        show(ended)
        print(f"run  {output_of(options, given)}")
    return 0


def show_help() -> None:
    """Print all arguments: those of patchgen, and those of TrainingArguments."""
    from patchgen.training.loop.options import make_parser

    print(make_parser().format_help())


@contextmanager
def _together(engine: Engine) -> Iterator[None]:
    """Run as one of the processes; an error that all of them have is printed by the first."""
    from patchgen.training.parallel.process_group import (
        PeerLost,
        first_reports_same,
        ignore_termination,
        leave,
    )

    try:
        yield
    except PeerLost as error:
        raise PatchgenError("PG836", Location("patchgen train"), str(error)) from error
    except PatchgenError as error:
        ignore_termination(engine)
        if first_reports_same(engine, str(error)):
            raise SystemExit(exit_code(problems_of(error))) from error
        raise
    leave(engine)


def _show(figures: Mapping[str, Any]) -> None:
    rows = [
        (name.replace("_", " "), template.format(figures[name]))
        for name, template in TEMPLATES.items()
        if name in figures
    ]
    rows.append(("peak memory", f"{figures['peak_bytes'] / GIB:.2f} GiB"))
    width = max(len(name) for name, _ in rows)
    sys.stdout.write("".join(f"{name:{width}}  {value}\n" for name, value in rows))


def _show_trials(tried: Mapping[str, Any]) -> None:
    objectives, trials = tried["objectives"], tried["trials"]
    # With two objectives, no single trial is the best: those of the Pareto front are.
    word = "front" if len(objectives) > 1 else "best"
    rows = [
        (
            str(trial["number"]),
            *(f"{value:,.4g}" for value in trial["values"]),
            *(f"{value:.3g}" for value in trial["settings"].values()),
            word if trial["best"] else "",
        )
        for trial in trials
    ]
    settings = list(trials[0]["settings"]) if trials else []
    sys.stdout.write(table(("trial", *objectives, *settings, ""), rows))
