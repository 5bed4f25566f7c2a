"""Colours of findings and diffs, on a terminal only and not where NO_COLOR is set."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

import click

_FINDING = re.compile(r"(?P<place>\S.*?): (?P<code>PG\d{3}) ")


def write(text: str, stream: TextIO | None = None) -> None:
    """Write `text` to `stream`, stdout by default, in colour where somebody looks at it."""
    stream = stream or sys.stdout
    stream.write(paint(text) if _has_colours(stream) else text)


def _has_colours(stream: TextIO) -> bool:
    # https://no-color.org: any value but the empty one counts.
    asked_not_to = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not asked_not_to


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
