"""`patchgen coverage`: run the two passes, save each result, and write the page."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from patchgen.author.coverage.book import STATUSES, Book, Status, read_book, write_book
from patchgen.author.coverage.page import Target, as_markdown
from patchgen.author.coverage.structure import EVERY, Structural
from patchgen.author.coverage.survey import Progress, Survey, in_order, modules_of, survey, tasks
from patchgen.author.coverage.targets import targets
from patchgen.cli.report import table
from patchgen.cli.requirements import require_models
from patchgen.cli.session import Request, open_project
from patchgen.project.versions import release_of
from patchgen.project.write import hold_record_lock, replace_file
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import Environment

COMMAND = "patchgen coverage --numeric"
# Packages of kernels without which no model with such a part runs.
KERNELS = {"liger": "liger_kernel"}
PAGE_EVERY = 20  # results: the page is written less often than the book


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
    """Run what is asked for; 1 if something failed in a model that this run looked at."""
    if not numeric and (again or most is not None):
        option = "--again" if again else "--most"
        raise click.UsageError(f"{option} needs --numeric")
    if numeric:
        # Before anything else: the next steps drop the results that have to be found again.
        require_models("--numeric")
    project = open_project(Request((), None, package_root))
    env = project.environment()
    place = Path(folder or project.home / "docs")
    _require_parts(parts)
    jobs = jobs or _count_cores()
    todo = tasks(modules_of(env, models), parts)
    # Each result is saved with all that are known: of two runs at once, one would lose the other's.
    with hold_record_lock(project, place / "coverage.json"):
        book = read_book(place / "coverage.json")
        with _show_bar("by structure", len(todo)) as progress:
            found = survey(project.home, todo, book, jobs, progress)
        goals = _goals(env, found.book)
        keeper = _Keeper(place, found.book, goals, env)
        keeper.save()
        if numeric:
            waiting = in_order(_waiting(found, again), goals)[:most]
            _run(waiting, keeper, jobs, seconds, megabytes)
    chosen = {(task.model, task.part) for task in todo}
    return _print_totals(keeper.book, chosen, goals)


def _count_cores() -> int:
    # A container may have fewer cores than the machine; not every system can tell.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return 1


def _require_parts(parts: Sequence[str]) -> None:
    for part in parts:
        if part not in EVERY:
            hint = did_you_mean(part, EVERY) or f"there are {', '.join(EVERY)}"
            raise PatchgenError("PG802", Location(part), "names no part", hint)


def _waiting(found: Survey, again: bool) -> Iterator[Structural]:
    """What still has to run, and can here; with `again` also what failed before."""
    statuses = ("written", "failed", "cannot be built here") if again else ("written",)
    missing = {part for part, package in KERNELS.items() if find_spec(package) is None}
    for one in found.written:
        if one.entry.status in statuses and one.task.part not in missing:
            yield one


def _goals(env: Environment, book: Book) -> tuple[Target, ...]:
    found = targets(env, modules_of(env, ()))
    return tuple(target for target in found if target.part in book.parts)


class _Keeper:
    """Saves each result as it comes, so that an interrupted run can be continued."""

    def __init__(self, place: Path, book: Book, goals: Sequence[Target], env: Environment) -> None:
        self.place, self.book, self.goals = place, book, goals
        self.versions = _versions(env)

    def save(self, *, page: bool = True) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        write_book(self.place / "coverage.json", self.book, self.versions)
        if page:
            text = as_markdown(self.book, self.goals, self.versions, COMMAND)
            replace_file(self.place / "coverage.md", text.encode(), lasting=False)


def _versions(env: Environment) -> dict[str, str]:
    places = {"patchgen": "patchgen", "torch": "torch.version", "transformers": "transformers"}
    found = {name: release_of(place, env) for name, place in places.items()}
    return {name: release for name, release in found.items() if release}


def _run(
    waiting: Sequence[Structural], keeper: _Keeper, jobs: int, seconds: float, megabytes: float
) -> None:
    from patchgen.author.coverage.watch import Limits, watched

    limits = Limits(seconds, megabytes)
    with _show_bar("by numbers", len(waiting)) as progress:
        for number, (found, entry) in enumerate(watched(waiting, limits, jobs), 1):
            task = found.task
            keeper.book = keeper.book.with_entry(task.model, task.part, entry)
            keeper.save(page=number % PAGE_EVERY == 0 or number == len(waiting))
            line = f"{task.model} {task.part}: {entry.status} ({entry.seconds:.0f} s)"
            if entry.why:
                line += f": {entry.why}"
            click.echo(line, err=True)
            progress(1)


def _print_totals(book: Book, chosen: Iterable[tuple[str, str]], goals: Sequence[Target]) -> int:
    """Print how many models have which status; the exit code."""
    counts: dict[str, Counter[Status]] = {}
    for model, part in sorted(chosen):
        entry = book.entry(model, part)
        if entry is not None:
            counts.setdefault(part, Counter())[entry.status] += 1
    rows = []
    for part in book.parts:
        if part in counts:
            rows.append((part, *(str(counts[part][status]) for status in STATUSES)))
    sys.stdout.write(table(("part", *STATUSES), rows))
    for goal in goals:
        verified = f"{goal.reached(book)} verified of {goal.says}"
        click.echo(f"{goal.part}: {verified}; the goal is {goal.wanted}")
    return int(any(count["failed"] for count in counts.values()))


@contextlib.contextmanager
def _show_bar(what: str, total: int) -> Iterator[Progress]:
    """A progress bar on a terminal; elsewhere nothing."""
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
