"""The options that several commands share, how a command says its own, and what it needs."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from patchgen import disk
from patchgen.project.config import find_config, home_of

FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True)


class NewPath(click.Path):
    """A place that a command writes to: none that a link of the project leads out of it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        disk.require_named(Path(value), home_of(Path.cwd()))
        return super().convert(value, param, ctx)


NEW_FOLDER = NewPath(file_okay=False)
ABOVE_0 = click.FloatRange(0, min_open=True)
FROM_1 = click.IntRange(1)
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


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


def _together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    # Decorators apply from the bottom up, and help lists options in the order of decorators.
    return lambda command: functools.reduce(lambda c, add: add(c), reversed(options), command)


def complete_variants(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The variants of the project around the current folder, and paths."""
    from patchgen.project.files import Project, discover

    project = Project(find_config([Path.cwd()]))
    items = []
    for modular in discover(project).modulars:
        name = modular.path.stem.removeprefix("modular_")
        if name.startswith(incomplete):
            items.append(CompletionItem(name))
    return [*items, CompletionItem(incomplete, type="file")]


def complete_targets(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Variants and paths, and error codes."""
    from patchgen.syntax.errors import catalogue

    if incomplete.startswith("PG"):
        entries = [entry for code, entry in catalogue().items() if code.startswith(incomplete)]
        return [CompletionItem(entry.code, help=entry.title) for entry in entries]
    return complete_variants(context, parameter, incomplete)


def complete_models(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The models of the installed transformers."""
    from patchgen.author.anatomy.module import every_module
    from patchgen.syntax.locate import make_environment

    names = every_module(make_environment(Path.cwd()))
    models = [name.rpartition(".modeling_")[2] for name in names]
    return [CompletionItem(model) for model in models if model.startswith(incomplete)]


def complete_parts(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The parts that `new` offers, behind those that are named: `sdpa,lo` gives `sdpa,loss`."""
    from patchgen.author.declare.registry import OFFERED

    before, comma, begun = incomplete.rpartition(",")
    items = []
    for part in OFFERED:
        if part.name.startswith(begun):
            items.append(CompletionItem(f"{before}{comma}{part.name}", help=part.help))
    return items


package_root = option("--package-root DIR", "Look for parents in DIR first.", type=FOLDER)
text_or_json = click.option(
    "--output-format", "form", type=click.Choice(["text", "json"]), default="text"
)
download = option("--download", "Let pip download missing releases into the cache.")
names_or_paths = click.argument(
    "names", nargs=-1, metavar="[VARIANT|PATH]...", shell_complete=complete_variants
)
jobs = option(
    "-j --jobs N", "Processes; default: as many as fit.", type=click.IntRange(0), default=0
)
# Of every command that reads modular files.
common = _together(
    click.argument(
        "paths", nargs=-1, metavar="[VARIANT|PATH]...", shell_complete=complete_variants
    ),
    option(
        "--package-root DIR", "Look for parents in DIR first; allow writing below it.", type=FOLDER
    ),
    option(
        "--out DIR",
        "Put all outputs into DIR.",
        type=NewPath(file_okay=False, resolve_path=True),
    ),
    jobs,
    option("--no-cache", "Neither read nor write the cache."),
    option("--allow-bidi", "Accept invisible control characters in sources."),
    option(
        "--release X",
        'Fail unless all parents are from transformers X, or from what is "installed".',
    ),
)
# How much is printed, and in what form.
reporting = _together(
    option(
        "--warnings-as-errors",
        "Treat a modular file with a warning as wrong: write nothing of it.",
    ),
    option("-q --quiet", "Print findings only."),
    option("-v --verbose", "Also print notes and what is up to date."),
    option(
        "--output-format",
        "Form of the findings; default: github if GITHUB_ACTIONS is true, else text.",
        type=click.Choice(["text", "json", "github", "sarif", "junit"]),
        envvar="PATCHGEN_OUTPUT_FORMAT",
    ),
)


def require(packages: str, what: str, extra: str) -> None:
    """Raise a usage error if one of `packages` is missing; `extra` is what installs them."""
    for package in packages.split():
        if importlib.util.find_spec(package.lower()) is None:
            from patchgen.project.origin import install_hint

            raise click.UsageError(f"{what} needs {package}: {install_hint(extra)}")


def needs_models(
    extra: str = "models",
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Decorate a command that runs models: where it cannot, it says so before it does anything."""

    def decorate(command: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @functools.wraps(command)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            needed = "torch transformers accelerate" if extra == "train" else "torch transformers"
            require(needed, f"{command.__name__} runs models and", extra)
            return command(*args, **kwargs)

        return run

    return decorate
