"""Progress bars, on a terminal, for runs that take longer than a second."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from patchgen.cli.session import Request, Session, open_session

PATIENCE = 1.0  # seconds before a bar is shown


@contextlib.contextmanager
def session_with_progress(
    paths: tuple[str, ...],
    package_root: str | None,
    out: str | None,
    jobs: int,
    no_cache: bool,
    allow_bidi: bool,
    quiet: bool = False,
    warnings_as_errors: bool = False,
    **_rest: Any,
) -> Iterator[Session]:
    """The session that the options ask for, with a progress bar while it is open."""
    is_cached = not no_cache
    request = Request(paths, out, package_root, jobs, is_cached, allow_bidi, warnings_as_errors)
    session = open_session(request)
    if quiet or not sys.stderr.isatty():
        yield session
        return
    bar = _Bar(len(session.found.modulars))
    try:
        yield replace(session, progress=bar.advance)
    finally:
        bar.close()


@contextlib.contextmanager
def bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A function that adds to a count, which a terminal shows."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    progress_bar = _Bar(total, what)
    try:
        yield progress_bar.advance
    finally:
        progress_bar.close()


class _Bar:
    """Counts files, and shows the count after a second."""

    def __init__(self, total: int, what: str = "flattening") -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._close: contextlib.ExitStack | None = None

    def advance(self, count: int) -> None:
        """`count` more files are done."""
        self._done += count
        if (
            self._close is None
            and time.monotonic() - self._started > PATIENCE
            and self._done < self._total
        ):
            self._open()
        if self._close is not None:
            self._progress.update(self._task, completed=min(self._done, self._total))

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._what, total=self._total)
        self._close = contextlib.ExitStack()
        self._close.enter_context(self._progress)

    def close(self) -> None:
        """Remove the bar."""
        if self._close is not None:
            self._close.close()
