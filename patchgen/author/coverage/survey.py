"""Plan a run: the structural entry of every task, valid entries of earlier runs, and what is left.

Takes an environment, models and parts; returns a `Book` and the tasks for the numeric pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from patchgen.author.anatomy.module import every_module, find_module
from patchgen.author.coverage.book import Book, Entry
from patchgen.author.coverage.page import Target
from patchgen.author.coverage.structure import EVERY, Structural, Task, declared, settled
from patchgen.syntax.locate import Environment, make_environment

Progress = Callable[[int], None]
SMALL = 8  # tasks for which no process is started


def modules_of(env: Environment, models: Sequence[str]) -> tuple[str, ...]:
    """The dotted names of `models`, or of every one.

    Raises PatchgenError PG801 for a model that is not there.
    """
    return tuple(dict.fromkeys(find_module(env, model) for model in models)) or every_module(env)


def tasks(modules: Iterable[str], parts: Iterable[str]) -> tuple[Task, ...]:
    """Every part in every module; a model is called by its file."""
    wanted = tuple(parts) or EVERY
    return tuple(
        Task(module.rpartition(".modeling_")[2], module, part)
        for module in modules
        for part in wanted
    )


@dataclass(frozen=True)
class Survey:
    """The result of the structural pass; `written` are the tasks whose modular file converts."""

    book: Book
    written: tuple[Structural, ...]


def survey(
    home: Path,
    todo: Sequence[Task],
    book: Book,
    jobs: int,
    progress: Progress = lambda done: None,
) -> Survey:
    """The structural pass over `todo`, with the entries of `book` that still hold."""
    written: list[Structural] = []
    for found in _surveyed(home, todo, book, jobs):
        task, entry = found.task, found.entry
        book = book.with_entry(task.model, task.part, entry)
        if found.text and entry.status != "refused":
            written.append(found)
        progress(1)
    return Survey(book, tuple(written))


def _surveyed(home: Path, todo: Sequence[Task], book: Book, jobs: int) -> Iterator[Structural]:
    by_model: dict[str, list[Task]] = {}
    for task in todo:
        by_model.setdefault(task.module, []).append(task)
    work = [
        (home, several, [book.entry(t.model, t.part) for t in several])
        for several in by_model.values()
    ]
    if jobs < 2 or len(work) < SMALL:
        for one in work:
            yield from _of_model(*one)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for several in pool.map(_of_model, *zip(*work, strict=True), chunksize=4):
            yield from several


def _of_model(
    home: Path, several: Sequence[Task], known: Sequence[Entry | None]
) -> list[Structural]:
    env = make_environment(home)
    return [
        _settled(env, declared(env, task), entry)
        for task, entry in zip(several, known, strict=True)
    ]


def _settled(env: Environment, found: Structural, known: Entry | None) -> Structural:
    return (
        replace(found, entry=settled(env, found, known))
        if found.entry.status == "written"
        else found
    )


def in_order(written: Iterable[Structural], targets: Sequence[Target]) -> tuple[Structural, ...]:
    """What counts for a target first, part by part, models of text before others."""
    parts = {part: number for number, part in enumerate(EVERY)}
    aimed = {(target.part, model) for target in targets for model in target.models or ()}

    def rank(found: Structural) -> tuple[bool, int, bool, str]:
        task = found.task
        return (
            (task.part, task.model) not in aimed,
            parts[task.part],
            not found.reads_text,
            task.model,
        )

    return tuple(sorted(written, key=rank))
