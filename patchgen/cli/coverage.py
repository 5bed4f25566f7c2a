"""`patchgen coverage`: runs the passes, keeps what comes of them, and writes the page."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from patchgen.author.coverage.book import STATUSES, Book, Status, read_book, write_book
from patchgen.author.coverage.page import Target, as_markdown
from patchgen.author.coverage.structure import EVERY, Structural
from patchgen.author.coverage.survey import Progress, Survey, in_order, modules_of, survey, tasks
from patchgen.author.coverage.targets import targets
from patchgen.cli.report import table
from patchgen.cli.session import Request, open_project
from patchgen.errors import Location, PatchgenError, did_you_mean
from patchgen.project.disk.write import replace_file
from patchgen.project.versions import release_of
from patchgen.syntax.locate import Environment

COMMAND = "patchgen coverage --numeric"
PAGE_EVERY = 20  # results


def coverage(
    models: Sequence[str],
    *,
    parts: Sequence[str],
    numeric: bool,
    again: bool,
    folder: str | None,
    jobs: int,
    seconds: float,
    megabytes: float,
    most: int | None,
    package_root: str | None = None,
) -> int:
    """Run what is asked for; 1 where something failed that this run looked at."""
    if not numeric and (again or most is not None):
        raise click.UsageError(
            f"{'--again' if again else '--most'} is about what --numeric runs: say that, too"
        )
    project = open_project(Request((), None, package_root))
    env, place = project.environment(), Path(folder or project.home / "docs")
    _insist_on_parts(parts)
    jobs = jobs or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
    book = read_book(place / "coverage.json")
    todo = tasks(modules_of(env, models), parts)
    with _bar("by structure", len(todo)) as progress:
        found = survey(project.home, todo, book, jobs, progress)
    aims = _aims(env, found.book)
    keeper = _Keeper(place, found.book, aims, env)
    keeper.keep()
    if numeric:
        waiting = in_order(_waiting(found, again), aims)[:most]
        _run(waiting, keeper, jobs, seconds, megabytes)
    chosen = {(task.model, task.part) for task in todo}
    return _show(keeper.book, chosen, aims)


def _insist_on_parts(parts: Sequence[str]) -> None:
    for part in parts:
        if part not in EVERY:
            hint = did_you_mean(part, EVERY) or f"there are {', '.join(EVERY)}"
            raise PatchgenError("PG802", Location(part), "names no part", hint)


def _waiting(found: Survey, again: bool) -> Iterator[Structural]:
    retried = ("written", "failed", "cannot be built here") if again else ("written",)
    for one in found.written:
        if one.entry.status in retried:
            yield one


def _aims(env: Environment, book: Book) -> tuple[Target, ...]:
    found = targets(env, modules_of(env, ()))
    return tuple(target for target in found if target.part in book.parts)


class _Keeper:
    """Writes each result as it comes."""

    def __init__(self, place: Path, book: Book, aims: Sequence[Target], env: Environment) -> None:
        self.place, self.book, self.aims = place, book, aims
        self.versions = _versions(env)

    def keep(self, *, page: bool = True) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        write_book(self.place / "coverage.json", self.book, self.versions)
        if page:
            text = as_markdown(self.book, self.aims, self.versions, COMMAND)
            replace_file(self.place / "coverage.md", text.encode(), lasting=False)


def _versions(env: Environment) -> dict[str, str]:
    places = {"patchgen": "patchgen", "torch": "torch.version", "transformers": "transformers"}
    return {name: release for name, place in places.items() if (release := release_of(place, env))}


def _run(
    waiting: Sequence[Structural], keeper: _Keeper, jobs: int, seconds: float, megabytes: float
) -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise click.UsageError(
                f"--numeric runs models and needs {package}: pip install 'patchgen[models]'"
            )
    from patchgen.author.coverage.watch import Limits, watched

    with _bar("by numbers", len(waiting)) as progress:
        for number, (found, entry) in enumerate(
            watched(waiting, Limits(seconds, megabytes), jobs), 1
        ):
            task = found.task
            keeper.book = keeper.book.with_entry(task.model, task.part, entry)
            keeper.keep(page=number % PAGE_EVERY == 0 or number == len(waiting))
            told = f"{task.model} {task.part}: {entry.status} ({entry.seconds:.0f} s)"
            click.echo(f"{told}{': ' if entry.why else ''}{entry.why}", err=True)
            progress(1)


def _show(book: Book, chosen: Iterable[tuple[str, str]], aims: Sequence[Target]) -> int:
    entries = [
        (part, entry)
        for model, part in sorted(chosen)
        if (entry := book.entry(model, part)) is not None
    ]
    rows = []
    for part in dict.fromkeys(
        part for part in book.parts if any(part == other for other, _ in entries)
    ):
        counted: Counter[Status] = Counter(
            entry.status for other, entry in entries if other == part
        )
        rows.append((part, *(str(counted[status]) for status in STATUSES)))
    sys.stdout.write(table(("part", *STATUSES), rows))
    for aim in aims:
        click.echo(
            f"{aim.part}: {aim.reached(book)} verified of {aim.says}; {aim.wanted} are wanted"
        )
    return int(any(entry.status == "failed" for _, entry in entries))


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
