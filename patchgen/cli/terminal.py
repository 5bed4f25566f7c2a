"""What only a terminal shows: findings and diffs in colour, and progress bars."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TextIO

import click

PATIENCE = 1.0  # seconds before a bar is shown
_FINDING = re.compile(r"(?P<place>\S.*?): (?P<code>PG\d{3}) ")


def write(text: str, stream: TextIO | None = None) -> None:
    """Write `text` to `stream`, stdout by default, in colour where somebody looks at it."""
    stream = stream or sys.stdout
    # https://no-color.org: any value but the empty one counts.
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    stream.write(paint(text) if stream.isatty() and not is_plain else text)


def paint(text: str) -> str:
    """`text` with the places and codes of findings, their hints, and diffs in colour."""
    return "".join(_paint_line(line) for line in text.splitlines(keepends=True))


def _paint_line(line: str) -> str:
    finding = _FINDING.match(line)
    if finding:
        place = click.style(finding["place"], bold=True)
        code = click.style(finding["code"], fg="red", bold=True)
        return f"{place}: {code} {line[finding.end() :]}"
    body, end = line.rstrip("\n"), line[len(line.rstrip("\n")) :]
    if body.startswith("    hint: "):
        return f"    {click.style('hint:', fg='cyan')}{body.removeprefix('    hint:')}{end}"
    for sign, colour in (("+", "green"), ("-", "red"), ("@@", "cyan")):
        if body.startswith(sign):
            return click.style(body, fg=colour) + end
    return line


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

                progress = Progress(console=Console(stderr=True), transient=True)
                shown.enter_context(progress)
                update = partial(progress.update, progress.add_task(what, total=total))
            if update is not None:
                update(completed=min(done, total))

        yield advance
