"""Run the numeric pass for many models and parts, each in a child process with limits.

If the system can fork, children are forked from a process that has loaded torch and transformers:
importing both would take longer than most trials.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from patchgen.author.coverage.book import Entry
from patchgen.author.coverage.structure import Structural
from patchgen.verify.run.process import resident

LOADED = (
    "patchgen.author.coverage.trial",
    "patchgen.compiler.flatten",
    "patchgen.compiler.merge.merge",
    "transformers.modeling_layers",
)
_TICK = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one trial; `start` is the time that loading torch may take before it."""

    seconds: float = 180
    megabytes: float = 3072
    start: float = 180


def watched(
    todo: Sequence[Structural], limits: Limits, jobs: int
) -> Iterator[tuple[Structural, Entry]]:
    """The entry of each trial, as soon as it is known."""
    context = _context()
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        waiting = {pool.submit(_one, context, found, limits): found for found in todo}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _context() -> Any:
    # Each child has one thread: as many of them run as there are jobs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context


def _one(context: Any, found: Structural, limits: Limits) -> Entry:
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="patchgen-", ignore_cleanup_errors=True) as home:
        process = context.Process(target=_child, args=(found, Path(home), theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            return _answer(process, ours, limits, found.entry.key)
        finally:
            process.kill()
            process.join()
            ours.close()


def _answer(process: Any, ours: Connection, limits: Limits, key: str) -> Entry:
    limit, since = limits.start, time.monotonic()
    while True:
        if ours.poll(_TICK):
            try:
                answer = ours.recv()
            except EOFError:
                process.join()
                return Entry("failed", f"the process ended with code {process.exitcode}", key)
            if isinstance(answer, Entry):
                return answer
            limit, since = limits.seconds, time.monotonic()  # it has begun
        if time.monotonic() - since > limit:
            return Entry("cannot be built here", f"needs more than {limit:.0f} seconds", key)
        if (used := resident(process.pid)) > limits.megabytes:
            return Entry(
                "cannot be built here",
                f"needs more than {limits.megabytes:.0f} MB of memory ({used:.0f})",
                key,
            )


def _child(found: Structural, home: Path, answers: Connection) -> None:
    # Discard what models print.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    from patchgen.author.coverage.trial import tried

    answers.send("begun")
    try:
        answers.send(tried(found, home))
    except Exception as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        answers.send(Entry("failed", f"patchgen itself: {message}", found.entry.key))
