"""Work on many files in several processes that share what this one has read.

Processes are forked: a new interpreter would first read and parse the same parents again.  A child
uses no locks and no streams of the parent, so that threads (a progress bar) do no harm.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_in_workers(
    work: Callable[[Sequence[Path]], _T], parts: Sequence[Sequence[Path]]
) -> list[_T | None]:
    """Do `work` on every part, the first of them in this process.

    The result is None for a part whose process died.
    """
    # Started first, so that all parts are worked on at the same time.
    waiting = [_fork(work, part) for part in parts[1:]]
    results: list[_T | None] = [work(parts[0])] if parts else []
    return [*results, *(_result(pid, pipe) for pid, pipe in waiting)]


def run_in_process(work: Callable[[Sequence[Path]], _T], part: Sequence[Path]) -> _T | None:
    """Do `work` in a process of its own; None if that dies."""
    result: _T | None = _result(*_fork(work, part))
    return result


def can_fork() -> bool:
    """Whether the system can fork processes."""
    return hasattr(os, "fork")


def partition(paths: Sequence[Path], sizes: Callable[[Path], int], parts: int) -> list[list[Path]]:
    """Split `paths` into runs of about the same size; neighbours often share parents."""
    partitioned: list[list[Path]] = [[] for _ in range(parts)]
    total, done = sum(map(sizes, paths)), 0
    for path in paths:
        # A file belongs where the middle of it falls.
        middle = done + sizes(path) // 2
        partitioned[min(parts - 1, middle * parts // max(total, 1))].append(path)
        done += sizes(path)
    return [part for part in partitioned if part]


def _fork(work: Callable[[Sequence[Path]], _T], part: Sequence[Path]) -> tuple[int, int]:
    """Start a process for `part`: its number, and the pipe for its result."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(work(part), pickle.HIGHEST_PROTOCOL))
        code = 0
    finally:
        os._exit(code)  # Nothing of the parent's is flushed, closed or taken down by the child.


def _result(pid: int, pipe: int) -> Any:
    """What a process has sent; None where it died."""
    # First the data: a child whose pipe is full waits for a reader, and would never end.
    with os.fdopen(pipe, "rb") as stream:
        data = stream.read()
    # Without this, the child would stay in the system's table.
    _, status = os.waitpid(pid, 0)
    return None if status else pickle.loads(data)
