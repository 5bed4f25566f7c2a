"""The one door of what patchgen prints, in a form that is safe to show, and progress bars."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TextIO

import click

from patchgen.syntax.shown import shown, shown_json, shown_line

PATIENCE = 1.0  # seconds before a bar is shown
_CLEAR = "\r\x1b[2K"  # a line of a terminal
_FINDING = re.compile(r"(?P<place>\S.*?): (?P<code>PG\d{3}) ")


def write(text: str, *, err: bool = False) -> None:
    """Write `text` to stdout or stderr, as `shown`; a terminal shows it in colour."""
    stream = sys.stderr if err else sys.stdout
    # https://no-color.org: any value but the empty one counts.
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    text = shown(text)
    _put(paint(text) if stream.isatty() and not is_plain else text, stream)


def say(line: object = "", *, err: bool = False) -> None:
    """Write a line to stdout or stderr."""
    write(f"{line}\n", err=err)


def write_lines(lines: Iterable[object], *, err: bool = False) -> None:
    """Write each of `lines` on one line, whatever the names in it."""
    write("".join(f"{shown_line(str(line))}\n" for line in lines), err=err)


def write_json(text: str) -> None:
    """Write the JSON `text` to stdout."""
    _put(shown_json(text), sys.stdout)


def write_annotations(lines: Iterable[str]) -> None:
    """Write workflow commands, whose values are escaped, to stdout."""
    _put("".join(f"{line}\n" for line in lines), sys.stdout)


def write_code(text: str) -> None:
    """Write a file's text to stdout, as it is but where somebody or GitHub's runner reads it."""
    if _is_read():
        write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))  # whatever the locale
    sys.stdout.buffer.flush()


def _is_read() -> bool:
    """Whether a person or a log reads stdout, and no program that wants it as it is."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return sys.stdout.isatty()
    try:
        return not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # it has no file descriptor
        return True


def write_status(line: str) -> None:
    """Show `line`, cut to the width of the terminal, in the place of the last one; "" clears it."""
    width = shutil.get_terminal_size().columns - 1
    _put(f"{_CLEAR}{shown_line(line)[:width]}", sys.stderr)


def _put(text: str, stream: TextIO) -> None:
    stream.write(text)
    stream.flush()


def paint(text: str) -> str:
    """`text` with the places and codes of findings, their hints, and diffs in colour."""
    return "".join(map(_paint_line, text.splitlines(keepends=True)))


def _paint_line(line: str) -> str:
    finding = _FINDING.match(line)
    if finding:
        place = click.style(finding["place"], bold=True)
        code = click.style(finding["code"], fg="red", bold=True)
        return f"{place}: {code} {line[finding.end() :]}"
    body = line.rstrip("\n")
    end = line[len(line.rstrip("\n")) :]
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
    started = time.monotonic()
    done = 0
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
