"""Progress bars, on a terminal, for runs that take longer than a second."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

PATIENCE = 1.0  # seconds before a bar is shown


@contextlib.contextmanager
def bar(total: int, what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that adds to a count, which a terminal shows."""
    if quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    started, done = time.monotonic(), 0
    update: Callable[..., None] | None = None

    with contextlib.ExitStack() as shown:

        def advance(count: int) -> None:
            nonlocal done, update
            done += count
            if update is None and time.monotonic() - started > PATIENCE and done < total:
                from rich.console import Console
                from rich.progress import Progress

                progress = shown.enter_context(
                    Progress(console=Console(stderr=True), transient=True)
                )
                update = partial(progress.update, progress.add_task(what, total=total))
            if update is not None:
                update(completed=min(done, total))

        yield advance
