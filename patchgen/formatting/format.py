"""Format generated texts with the formatter that the project chose.

Starting ruff costs more than formatting a file, so the texts of many files go to one process.

    def scale( x ): return [x,2]        def scale(x):
                                            return [x, 2]
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import disk
from patchgen.budget import limit_work
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.kept import Kept, recall
from patchgen.system import program_beside_python

SECONDS = 300  # for all files of a run: ruff takes five for those of transformers


@dataclass(frozen=True, slots=True)
class Unformatted:
    """A text whose imports may be sorted in `opening`, and keep their order in `body`."""

    opening: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """Texts to be formatted as `settings` say; `own` are the packages of the project itself."""

    texts: Mapping[str, Unformatted]
    settings: Settings
    own: tuple[str, ...] = ()


def format_texts(
    texts: Mapping[str, str | Unformatted], settings: Settings, own: Iterable[str] = ()
) -> dict[str, str]:
    """Sort the imports of each text, then format it as the settings say.

    Nothing but the arguments decides: ruff is kept from the current folder, its own variables, and
    what git ignores.  Raises PatchgenError PG911 when the formatter is not installed, PG912 when it
    refuses a text.
    """
    unformatted = {
        name: Unformatted(text) if isinstance(text, str) else text for name, text in texts.items()
    }
    return _format(Request(unformatted, settings, tuple(own)))


def recall_formatted(request: Request) -> Kept:
    """What earlier runs gave for `request`."""
    listed = [[name, text.opening, text.body] for name, text in request.texts.items()]
    chosen = [request.settings.formatter, request.settings.line_length, sorted(request.own)]
    return recall("format", listed, chosen)


_Answer = dict[str, str] | PatchgenError


def format_all(requests: Sequence[Request]) -> list[_Answer]:
    """The texts of `requests`, or why there are none; those of the same settings run together."""
    alike: dict[tuple[Settings, tuple[str, ...]], list[int]] = {}
    for number, request in enumerate(requests):
        alike.setdefault((request.settings, request.own), []).append(number)
    answers: dict[int, _Answer] = {}
    for (settings, own), numbers in alike.items():
        texts = {}
        # Outputs of several files may have one name: each request gets a folder.
        for n in numbers:
            for name, text in requests[n].texts.items():
                texts[f"{n}/{name}"] = text
        try:
            formatted = _format(Request(texts, settings, own))
            for n in numbers:
                answers[n] = {name: formatted[f"{n}/{name}"] for name in requests[n].texts}
        except PatchgenError:
            # Alone, each says what is wrong with it, and the others are formatted all the same.
            for n in numbers:
                try:
                    answers[n] = _format(requests[n])
                except PatchgenError as error:
                    answers[n] = error
    return [answers[number] for number in range(len(requests))]


def _format(request: Request) -> dict[str, str]:
    with limit_work(Location(next(iter(request.texts), ""))):
        return _format_all_of(request)


def _format_all_of(request: Request) -> dict[str, str]:
    # Slow to load, and most runs find all texts in the cache.
    from patchgen.formatting.layout import keep_layout

    texts = request.texts
    settings = request.settings
    if not texts:
        return {}
    # What all runs of ruff are told; no configuration of a project is read.
    options = ["--isolated", "--no-cache", "--config", f"line-length = {settings.line_length}"]
    options += ["--config", 'target-version = "py311"']
    with disk.scratch() as folder:
        paths = {name: folder / name for name in texts}
        disk.fill(folder, {name: text.opening for name, text in texts.items()})
        # As the pyproject of transformers says: the diff to the parent is the variant alone.
        known = json.dumps(["transformers", *request.own])
        isort = f"lines-after-imports = 2, known-first-party = {known}, detect-same-package = false"
        # `src = []`: no folder is searched for packages of the project.
        packages = ["--config", "src = []", "--config", f"lint.isort = {{ {isort} }}"]
        # Without `--exit-zero`, a text that does not parse would end here with less of a message
        # than `format` gives.
        sorting = ["check", "--quiet", "--exit-zero", "--fix", "--select", "I", *packages]
        _run_ruff([*sorting, *options], folder, paths)
        for name, path in paths.items():
            opening = disk.text_of(path)
            body = texts[name].body
            if body.strip() and re.search(r"^(?:import|from) ", opening, re.MULTILINE):
                # Two blank lines below the imports, as isort sets them.
                opening = opening.rstrip("\n") + "\n\n\n"
                body = body.lstrip("\n")
            disk.write(path, opening + body, folder, lasting=False)
        formatted = {name: disk.text_of(path) for name, path in paths.items()}
        if settings.formatter == "ruff":
            _run_ruff(["format", "--quiet", *options], folder, paths)
            for name, path in paths.items():
                text = disk.text_of(path)
                formatted[name] = keep_layout(formatted[name], text, settings.line_length)
    if settings.formatter == "black":
        return {name: _format_with_black(name, text, settings) for name, text in formatted.items()}
    return formatted


def _run_ruff(arguments: list[str], folder: Path, names: Iterable[str]) -> None:
    from patchgen import children  # slow to load

    # Files that are named are formatted whatever git ignores around them.
    command = [ruff_program(), *arguments, "--", *names]
    # Without the variables that change what ruff does.
    env = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
    done = children.run(command, folder, SECONDS, env)
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        said = output.replace(str(folder), "").partition("\n")[0]
        what = f"refused a generated text: {said}"
        at = Location("ruff")
        raise PatchgenError("PG912", at, what, "please report this")


def _format_with_black(name: str, text: str, settings: Settings) -> str:
    try:
        # Loading it takes half a second, which only projects that choose it pay.
        import black.parsing
        import black.report
    except ImportError as error:
        hint = "pip install black"
        raise PatchgenError("PG911", Location("black"), "is not installed", hint) from error
    try:
        mode = black.Mode(line_length=settings.line_length)
        return black.format_file_contents(text, fast=False, mode=mode)
    except black.report.NothingChanged:
        return text
    except black.parsing.InvalidInput as error:
        what = f"black refused a generated text: {error}"
        raise PatchgenError("PG912", Location(name), what) from error


@functools.cache
def ruff_program() -> str:
    """The ruff installed with patchgen, else that on the path; raises PG911 where there is none."""
    beside_python = program_beside_python("ruff")
    if beside_python is not None:
        return str(beside_python)
    from shutil import which  # slow to load, and most installations have ruff beside Python

    program = which("ruff")
    if program is None:
        hint = "pip install 'ruff>=0.11'"
        raise PatchgenError("PG911", Location("ruff"), "is not installed", hint)
    return program


@functools.cache
def ruff_state() -> str:
    """A text that changes when the program changes.

    The metadata of the installed package may belong to another ruff than the one that runs.
    """
    try:
        program = ruff_program()
    except PatchgenError:
        return ""
    about = os.stat(program)
    return f"{program} {about.st_size} {about.st_mtime_ns}"
