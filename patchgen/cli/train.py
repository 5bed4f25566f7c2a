"""`patchgen train`: read the switches, show the progress of the run, print its result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from patchgen.cli.report import exit_code, table
from patchgen.syntax.errors import Location, PatchgenError, problems_of

if TYPE_CHECKING:
    from patchgen.training.loop.folder import RunFolder
    from patchgen.training.loop.meter import Watch
    from patchgen.training.loop.recipe import Recipe
    from patchgen.training.loop.run import TrainingResult
    from patchgen.training.parallel.engine import Engine

GIB = 2**30
RECIPE = "recipe.json"


def train(
    model: str | None,
    *,
    resume: str | None,
    at: int | None,
    output: str | None,
    search: str | None,
    **switches: Any,
) -> int:
    """Start a run, or continue one."""
    from patchgen.training.loop.engine import check_launcher, choose_device
    from patchgen.training.loop.failures import resume_hint
    from patchgen.training.loop.folder import RunFolder, create_shared_folder
    from patchgen.training.loop.recipe import Recipe
    from patchgen.training.loop.run import train as run
    from patchgen.training.parallel.engine import parse_engine

    if at is not None and (resume is None or search is not None):
        raise click.UsageError("--at needs --resume, and cannot be used with --search")
    if resume is not None:
        _refuse_other_switches(model, {**switches, "output": output})
        recipe = RunFolder(Path(resume)).recipe()
        if _is_given("engine"):
            recipe = replace(recipe, engine=switches["engine"])
    elif model is None:
        raise click.UsageError("name a model, or a run with --resume")
    else:
        recipe = Recipe(model=model, **switches)
    engine = parse_engine(recipe.engine, os.environ)
    check_launcher(recipe, os.environ)
    if resume is not None:
        folder = RunFolder(Path(resume), writes=engine.is_first)
        if folder.ended:
            if engine.is_first:
                click.echo(f"{resume} is finished", err=True)
            return 0
    with _together(engine, choose_device(recipe.device)), _watching(engine) as watch:
        if resume is None:
            folder = create_shared_folder(output or "", recipe, engine)
        try:
            if search is not None:
                return _search(recipe, search, folder, watch, resume=resume is not None)
            ended = run(recipe, folder, watch, resume=resume is not None, at=at, engine=engine)
        except KeyboardInterrupt:
            if engine.is_first:
                click.echo(resume_hint(folder), err=True)
            raise
    if engine.is_first:
        _show(ended)
    return 0


@contextmanager
def _together(engine: Engine, device: str) -> Iterator[None]:
    """Join the processes of a run; an error that all of them have is printed by the first."""
    from patchgen.training.parallel.process_group import (
        PeerLost,
        first_reports_same,
        ignore_termination,
        join,
        leave,
    )

    join(engine, device)
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


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _refuse_other_switches(model: str | None, switches: Mapping[str, Any]) -> None:
    """Refuse switches beside `--resume`: a run continues with its own, so they would be ignored."""
    flags = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    given = [flags[name] for name in switches if name != "engine" and _is_given(name)]
    if model is not None:
        given.insert(0, model)
    if given:
        what = ", ".join(given)
        raise click.UsageError(f"--resume continues with {RECIPE} of the run and takes no {what}")


@contextmanager
def _watching(engine: Engine) -> Iterator[Watch]:
    """A progress bar on a terminal, lines elsewhere; only in the first process."""
    if not engine.is_first:
        yield _Silent()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(bar)


def figures_line(figures: Mapping[str, float], between: str = "  ") -> str:
    """Loss, speed and memory, as far as they are known; `between` separates loss and speed."""
    words = []
    for name, template in (
        ("loss", "loss {:.4f}"),
        ("eval_loss", "eval loss {:.4f}"),
        ("eval_accuracy", "accuracy {:.3f}"),
    ):
        if name in figures:
            words.append(template.format(figures[name]))
    fast = []
    if "tokens_a_second" in figures:
        fast.append(f"{figures['tokens_a_second']:,.0f} tokens/s")
    if "mfu" in figures:
        fast.append(f"MFU {figures['mfu']:.1%}")
    if "peak_bytes" in figures:
        fast.append(f"{figures['peak_bytes'] / GIB:.2f} GiB")
    return between.join("  ".join(part) for part in (words, fast) if part)


class _Lines:
    """Prints a line for each measurement."""

    def __init__(self) -> None:
        self.of = 0

    def steps(self, done: int, of: int) -> None:
        self.of = of

    def report(self, figures: Mapping[str, float]) -> None:
        if "loss" in figures or "eval_loss" in figures:
            click.echo(f"step {figures['step']:.0f}/{self.of}  {figures_line(figures)}", err=True)

    def note(self, text: str) -> None:
        click.echo(text, err=True)


class _Silent:
    """Prints nothing, because the first process does."""

    def steps(self, done: int, of: int) -> None:
        pass

    def report(self, figures: Mapping[str, float]) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class _Bar:
    """A progress bar with the latest measurements."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task: Any = None
        self.last: dict[str, float] = {}

    def steps(self, done: int, of: int) -> None:
        if self.task is None:
            self.task = self.bar.add_task("", total=of, figures="")
        self.bar.update(self.task, completed=done, total=of)

    def report(self, figures: Mapping[str, float]) -> None:
        self.last |= figures
        if self.task is not None:
            self.bar.update(self.task, figures=figures_line(self.last, between="\n"))

    def note(self, text: str) -> None:
        self.bar.console.print(text)


def _search(recipe: Recipe, text: str, folder: RunFolder, watch: Watch, *, resume: bool) -> int:
    from patchgen.training.loop.search import search
    from patchgen.training.loop.switches import searching

    found = search(recipe, text, folder, watch, resume=resume)
    objectives = searching(text).objectives
    settings = [name for name, _ in found[0].settings] if found else []
    # With two objectives, no single trial is the best: those of the Pareto front are.
    word = "front" if len(objectives) > 1 else "best"
    rows = []
    for one in found:
        values = [f"{value:,.4g}" for value in one.values]
        chosen = [f"{value:.3g}" for _, value in one.settings]
        rows.append((str(one.number), *values, *chosen, word if one.front else ""))
    sys.stdout.write(table(("trial", *objectives, *settings, ""), rows))
    return 0


# The share of the measured peak of the device, and of the peak in its data sheet.
SHARES = {"mfu": "MFU", "mfu_datasheet": "MFU, data sheet"}


def _show(ended: TrainingResult) -> None:
    figures = ended.figures
    rows = [("steps", f"{figures['steps']:.0f}"), ("loss", f"{figures['loss']:.4f}")]
    rows.append(("eval loss", f"{figures['eval_loss']:.4f}"))
    if "eval_accuracy" in figures:
        rows.append(("accuracy", f"{figures['eval_accuracy']:.3f}"))
    rows += [
        ("tokens a second", f"{figures['tokens_a_second']:,.0f}"),
        *((words, f"{figures[name]:.1%}") for name, words in SHARES.items() if name in figures),
        ("peak memory", f"{figures['peak_bytes'] / GIB:.2f} GiB"),
        ("run", str(ended.folder)),
    ]
    width = max(len(name) for name, _ in rows)
    sys.stdout.write("".join(f"{name:{width}}  {value}\n" for name, value in rows))
