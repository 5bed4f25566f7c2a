"""The options that commands share, each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FORMATS = ("text", "json", "github", "sarif")
_Command = TypeVar("_Command", bound=Callable[..., Any])
FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True)


def common(command: _Command) -> _Command:
    """What every command takes that looks at modular files."""
    for option in reversed(
        [
            click.argument("paths", nargs=-1, type=click.Path()),
            click.option(
                "--package-root",
                type=FOLDER,
                metavar="DIR",
                help="Look for parents in DIR first; allow writing below it.",
            ),
            click.option(
                "--out",
                type=click.Path(file_okay=False, resolve_path=True),
                metavar="DIR",
                help="Put all outputs into DIR.",
            ),
            click.option(
                "-j",
                "--jobs",
                type=click.IntRange(0),
                default=0,
                metavar="N",
                help="Processes; by default as many as pay.",
            ),
            click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
            click.option(
                "--allow-bidi", is_flag=True, help="Accept invisible control characters in sources."
            ),
        ]
    ):
        command = option(command)
    return command


def reporting(command: _Command) -> _Command:
    """How much is said, and in what form."""
    for option in reversed(
        [
            click.option("-q", "--quiet", is_flag=True, help="Print findings only."),
            click.option(
                "-v", "--verbose", is_flag=True, help="Print what is well, and notes, too."
            ),
            click.option(
                "--output-format",
                type=click.Choice(FORMATS),
                default=None,
                envvar="PATCHGEN_OUTPUT_FORMAT",
                help="How findings are printed; github where GITHUB_ACTIONS is true, else text.",
            ),
        ]
    ):
        command = option(command)
    return command
