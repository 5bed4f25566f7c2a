"""Flatten in worker processes.

A file that kills its worker fails alone; the run goes on.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from patchgen.children import safe_workers
from patchgen.project.cache import Cache
from patchgen.project.files import Modular
from patchgen.project.flattening import flatten_group
from patchgen.project.outcome import Outcome
from patchgen.syntax.errors import Location, Problem

_CACHES: list[Cache] = []  # of a worker process, set once when it starts


def in_workers(
    cache: Cache, profile: str, chunks: Sequence[Sequence[Modular]], jobs: int
) -> Iterator[Outcome]:
    """Yield outcomes as they are done.

    The files of a worker that died are tried again, each in a process of its own.
    """
    # When one worker dies, the pool gives up on all files that are not done.  It does not say which
    # of them was the reason.
    lost: list[Modular] = []
    with safe_workers(), _pool(cache, min(jobs, len(chunks))) as pool:
        waiting = {pool.submit(_work, profile, tuple(chunk)): chunk for chunk in chunks}
        try:
            for future in as_completed(waiting):
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    lost += waiting[future]
        except BaseException:
            # After an interrupt, those that wait never start.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for modular in sorted(lost):
        with safe_workers(), _pool(cache, 1) as pool:
            try:
                yield from pool.submit(_work, profile, (modular,)).result()
            except BrokenProcessPool:
                at = Location(modular.display_path)
                what = "the process that flattened this file died"
                hint = "it crashed or was killed for its memory; "
                hint += "please report it together with the file"
                yield Outcome(modular, problems=(Problem(at, "PG909", what, hint),))


def _pool(cache: Cache, jobs: int) -> ProcessPoolExecutor:
    # Not "fork": a progress bar runs in a thread, and a copy of a process with threads can hang.
    fresh = Cache(cache.project, cache.on)
    return ProcessPoolExecutor(jobs, get_context("spawn"), _start, (fresh,))


def _start(cache: Cache) -> None:
    """Let this worker end silently when it is interrupted or its parent is gone."""
    _CACHES[:] = [cache]
    gc.disable()  # as `cli.main` does
    # A terminal sends Ctrl-C to every process: each worker would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    # `sys.exit` would end this thread only.
    os._exit(1)


def _work(profile: str, modulars: tuple[Modular, ...]) -> tuple[Outcome, ...]:
    (cache,) = _CACHES
    return tuple(flatten_group(cache, profile, modulars))
