"""The options that several commands share, and how a command says its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FORMATS = ("text", "json", "github")
FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True)
NEW_FOLDER = click.Path(file_okay=False)
ABOVE_0 = click.FloatRange(0, min_open=True)
COUNT = click.IntRange(0)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def option(names: str, text: str, **more: Any) -> Callable[[_Command], _Command]:
    """An option: its flags, its parameter where that has another name, and a word for its value.

    Without such a word, a type or a default it is a flag.
    """
    words = names.split()
    if words[-1][0].isupper():
        more["metavar"] = words.pop()
    elif not {"type", "default"} & more.keys():
        more["is_flag"] = True
    return click.option(*words, help=text, **{"show_default": bool(more.get("default")), **more})


package_root = option("--package-root DIR", "Look for parents in DIR first.", type=FOLDER)
text_or_json = click.option(
    "--output-format", "form", type=click.Choice(["text", "json"]), default="text"
)
download = option("--download", "Let pip download missing releases into the cache.")
names_or_paths = click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
jobs = option(
    "-j --jobs N", "Processes; default: as many as make it faster.", type=COUNT, default=0
)


def common(command: _Command) -> _Command:
    """Add what every command takes that reads modular files."""
    options = (
        click.argument("paths", nargs=-1, type=click.Path()),
        option(
            "--package-root DIR",
            "Look for parents in DIR first; allow writing below it.",
            type=FOLDER,
        ),
        option(
            "--out DIR",
            "Put all outputs into DIR.",
            type=click.Path(file_okay=False, resolve_path=True),
        ),
        jobs,
        option("--no-cache", "Neither read nor write the cache."),
        option("--allow-bidi", "Accept invisible control characters in sources."),
    )
    return _add_all(options, command)


def reporting(command: _Command) -> _Command:
    """Add how much is printed, and in what form."""
    options = (
        option(
            "--warnings-as-errors",
            "Treat a modular file with a warning as wrong: write nothing of it.",
        ),
        option("-q --quiet", "Print findings only."),
        option("-v --verbose", "Also print notes and what is up to date."),
        option(
            "--output-format",
            "Form of the findings; default: github if GITHUB_ACTIONS is true, else text.",
            type=click.Choice(FORMATS),
            envvar="PATCHGEN_OUTPUT_FORMAT",
        ),
    )
    return _add_all(options, command)


def _add_all(options: tuple[Callable[[_Command], _Command], ...], command: _Command) -> _Command:
    # Decorators apply from the bottom up, and help lists options in the order of decorators.
    for each in reversed(options):
        command = each(command)
    return command
