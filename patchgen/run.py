"""Flattening many modular files: from the cache where nothing changed, else here or in worker processes.

In: the project and its modular files.  Out: one `Outcome` each, in the order of the files, whatever the number of
workers.  What goes wrong with one file is in its outcome; the others are not touched by it.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from pathlib import Path

from patchgen.cache import Cache
from patchgen.errors import Location, PatchgenError, Problem, problems_of
from patchgen.flat import Flattened
from patchgen.outcome import Lookup, Outcome, Read, digest_of_file, make_outcome
from patchgen.profiles import PROFILES
from patchgen.project import Modular, Project
from patchgen.source.blocks import ModuleIndex
from patchgen.source.locate import Environment
from patchgen.source.text import decode, make_source

FILES_THAT_PAY = 4

Progress = Callable[[int], None]  # called with the number of files that have just been done


@dataclass(frozen=True)
class Witness(Environment):
    """An environment that remembers what it was asked for, so that an answer can be believed while that stays so."""

    asked: dict[str, str] = field(default_factory=dict, compare=False)
    read: dict[str, str] = field(default_factory=dict, compare=False)

    def path(self, module: str) -> Path | None:
        """As in `Environment`."""
        found = super().path(module)
        self.asked[module] = str(found or "")
        return found

    def index(self, module: str, at: Location) -> ModuleIndex:
        """As in `Environment`."""
        path = self.path(module)
        if path is not None:
            self.read.setdefault(str(path), "")  # It counts as read even where reading it fails.
        facts = super().index(module, at)
        self.read[str(path)] = facts.source.digest
        return facts


def run(
    project: Project, modulars: Sequence[Modular], cache: Cache, jobs: int = 0, progress: Progress = lambda done: None
) -> tuple[Outcome, ...]:
    """The outcome of every modular file, in order; fresh ones are put into the cache.

    `jobs` is the number of processes; 0 takes as many as there are processors, where that pays.
    """
    known: dict[Modular, Outcome | None] = {modular: cache.load(modular) for modular in modulars}
    rest = [modular for modular in modulars if known[modular] is None]
    progress(len(modulars) - len(rest))
    for outcome in _flatten_all(project, rest, jobs or _enough(len(rest))):
        cache.store(outcome)
        known[outcome.modular] = outcome
        progress(1)
    return tuple(found for modular in modulars if (found := known[modular]) is not None)


def _enough(files: int) -> int:
    """How many processes pay: each takes about as long to start as some files take to flatten."""
    return max(
        1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, files // FILES_THAT_PAY)
    )


def _flatten_all(project: Project, modulars: Sequence[Modular], jobs: int) -> Iterator[Outcome]:
    """Outcomes in any order, by groups that share a profile."""
    for profile, members in itertools.groupby(sorted(modulars, key=lambda m: (m.profile, m)), lambda m: m.profile):
        group = tuple(members)
        chunks = PROFILES[profile].split(group, jobs)
        if jobs > 1 and len(chunks) > 1:
            yield from _in_workers(project, profile, chunks, jobs)
        else:
            yield from flatten_group(project, profile, group)


def flatten_group(project: Project, profile: str, modulars: Sequence[Modular]) -> Iterator[Outcome]:
    """Outcomes in order, made in this process."""
    rest = list(modulars)
    while rest:
        witness = _witness(project)
        settings = project.config.settings
        results = PROFILES[profile].flatten([modular.path for modular in rest], witness, settings)
        while rest:
            modular = rest.pop(0)
            try:
                flattened = next(results)
            except PatchgenError as error:
                yield _outcome(modular, Flattened(problems=problems_of(error)), witness)
                break  # A generator that has raised is finished: the others need another one.
            except MemoryError:
                yield Outcome(modular, problems=(Problem(_at(modular), "PG907", "there is not enough memory"),))
                break
            except Exception as error:
                # The boundary of the core: an error that it did not foresee is ours, and the run goes on.
                yield Outcome(modular, problems=(_internal(modular, error),))
                break
            yield _outcome(modular, flattened, witness)


def _witness(project: Project) -> Witness:
    env = project.environment()
    return Witness(env.roots, env.home, env.allow_bidi)


def _outcome(modular: Modular, flattened: Flattened, witness: Witness) -> Outcome:
    """The outcome with what was asked and read for it; the witness forgets."""
    reads = dict(witness.read) if flattened.reads is None else dict.fromkeys(map(str, flattened.reads), "")
    lookups = tuple(Lookup(module, path) for module, path in sorted(witness.asked.items()))
    witness.asked.clear()
    witness.read.clear()
    digest, raw = _text_digest(modular.path)
    facts = [Read(str(modular.path), raw)]
    facts += [Read(path, _raw_digest(Path(path), seen)) for path, seen in sorted(reads.items())]
    return make_outcome(modular, digest, flattened, tuple(facts), lookups)


def _text_digest(path: Path) -> tuple[str, str]:
    """The sha256 of the file's text and that of its bytes; the first is empty where it is no text."""
    try:
        data = path.read_bytes() if path.is_file() else b""
        text = make_source(decode(data, path.name, allow_bidi=True), path.name)
    except (OSError, PatchgenError):
        return "", digest_of_file(path)
    return text.digest, digest_of_file(path)


def _raw_digest(path: Path, seen: str) -> str:
    """The sha256 of the bytes at `path`, or the empty string when its text is not the one that was `seen`."""
    text, raw = _text_digest(path)
    return raw if seen in ("", text) else ""


def _at(modular: Modular) -> Location:
    return Location(modular.shown)


def _internal(modular: Modular, error: Exception) -> Problem:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
    what = f"internal error at {place}: {type(error).__name__}: {' '.join(str(error).split())}"
    hint = "this is a defect of patchgen, not of your file; please report it together with the file"
    return Problem(_at(modular), "PG908", what, hint)


_PROJECT: list[Project] = []  # of a worker process, set once when it starts


def _in_workers(project: Project, profile: str, chunks: Sequence[Sequence[Modular]], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come; the files of a worker that died are tried again, each in a process of its own."""
    lost: list[Modular] = []
    with _pool(project, min(jobs, len(chunks))) as pool:
        waiting = {pool.submit(_work, profile, tuple(chunk)): chunk for chunk in chunks}
        for future in _done(pool, list(waiting)):
            try:
                yield from future.result()
            except BrokenProcessPool:
                lost += waiting[future]
    for modular in lost:
        yield _alone(project, profile, modular)


def _alone(project: Project, profile: str, modular: Modular) -> Outcome:
    with _pool(project, 1) as pool:
        try:
            return pool.submit(_work, profile, (modular,)).result()[0]
        except BrokenProcessPool:
            what = "the process that flattened this file died"
            hint = "it ran out of memory or crashed; please report it together with the file"
            return Outcome(modular, problems=(Problem(_at(modular), "PG909", what, hint),))


def _pool(project: Project, jobs: int) -> ProcessPoolExecutor:
    # Not "fork": a progress bar runs in a thread, and a copy of a process with threads can hang.
    return ProcessPoolExecutor(jobs, get_context("spawn"), _start_worker, (project,))


def _done(
    pool: ProcessPoolExecutor, futures: list[Future[tuple[Outcome, ...]]]
) -> Iterator[Future[tuple[Outcome, ...]]]:
    """Futures as they are done; when the run is interrupted, what has not begun never begins."""
    try:
        yield from as_completed(futures)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _start_worker(project: Project) -> None:
    """Make this worker process end at once, and silently, when it is interrupted or its parent is gone."""
    _PROJECT[:] = [project]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()


def _leave_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _work(profile: str, modulars: tuple[Modular, ...]) -> tuple[Outcome, ...]:
    return tuple(flatten_group(_PROJECT[0], profile, modulars))
