"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FORMATS = ("text", "json", "github", "sarif")
FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True)
ABOVE_0 = click.FloatRange(0, min_open=True)
_Command = TypeVar("_Command", bound=Callable[..., Any])

package_root = click.option(
    "--package-root", type=FOLDER, metavar="DIR", help="Look for parents in DIR first."
)
text_or_json = click.option(
    "--output-format", "form", type=click.Choice(["text", "json"]), default="text"
)
download = click.option(
    "--download", is_flag=True, help="Let pip download missing releases into the cache."
)
_COMMON = (
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
        help="Processes; default: as many as make it faster.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option(
        "--allow-bidi", is_flag=True, help="Accept invisible control characters in sources."
    ),
)
_REPORTING = (
    click.option(
        "--warnings-as-errors",
        is_flag=True,
        help="Treat a modular file with a warning as wrong: write nothing of it.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print findings only."),
    click.option("-v", "--verbose", is_flag=True, help="Also print notes and what is up to date."),
    click.option(
        "--output-format",
        type=click.Choice(FORMATS),
        default=None,
        envvar="PATCHGEN_OUTPUT_FORMAT",
        help="Form of the findings; default: github if GITHUB_ACTIONS is true, else text.",
    ),
)


def common(command: _Command) -> _Command:
    """Add what every command takes that reads modular files."""
    return _add_all(_COMMON, command)


def reporting(command: _Command) -> _Command:
    """Add how much is printed, and in what form."""
    return _add_all(_REPORTING, command)


def limits(of: str, *, seconds: int, clock: str = "Time") -> Callable[[_Command], _Command]:
    """Add the time and the memory that one trial or case may take."""
    options = (
        click.option(
            "--seconds",
            type=ABOVE_0,
            metavar="S",
            default=seconds,
            show_default=True,
            help=f"{clock} that {of} may take.",
        ),
        click.option(
            "--megabytes",
            type=ABOVE_0,
            metavar="MB",
            default=3072,
            show_default=True,
            help=f"Memory that {of} may take.",
        ),
    )
    return lambda command: _add_all(options, command)


def _add_all(options: tuple[Callable[[_Command], _Command], ...], command: _Command) -> _Command:
    # Decorators apply from the bottom up, and help lists options in the order of decorators.
    for option in reversed(options):
        command = option(command)
    return command
