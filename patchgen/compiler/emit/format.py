"""Text to formatted text, by the formatter that the project chose.

Several texts go to one process: starting ruff costs more than formatting a file.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.compiler.emit.ruff import clean_environment, ruff_program
from patchgen.compiler.settings import Settings
from patchgen.errors import Location, PatchgenError

# What transformers' own pyproject asks of isort; the diff to the parent is then the variant alone.
_FIRST_PARTY = ("transformers",)
_OF_TRANSFORMERS = re.compile(r"^from transformers\b.* import (?:\([^)]*\).*|.*)\n", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Unformatted:
    """A text whose imports may be sorted in `opening`, and have the order that Python needs in `body`."""

    opening: str
    body: str = ""


def imported_packages(text: str) -> set[str]:
    """The top-level packages that lines of `text` import, and perhaps words behind `from` in a docstring."""
    return set(_IMPORT.findall(text))


def format_texts(
    texts: Mapping[str, str | Unformatted], settings: Settings, own: Iterable[str] = ()
) -> dict[str, str]:
    """Each named text formatted: imports sorted, then the style of `settings.formatter`.

    `own` are the packages that imports count as the project's own beside transformers.  Nothing else decides: ruff
    would look into the current folder for them, into its own variables, and into what git ignores.
    Raises PatchgenError PG911 when the formatter is not installed, PG912 when it refuses a text.
    """
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        names = list(texts)
        bodies: dict[str, str] = {}
        for name, text in texts.items():
            opening, bodies[name] = (
                (text, "") if isinstance(text, str) else (text.opening, text.body)
            )
            Path(folder, name).write_text(opening, encoding="utf-8", newline="\n")
        # `E999` would hide behind other rules; a text that does not parse is reported by `format` below.
        _ruff(
            [
                "check",
                "--isolated",
                "--no-cache",
                "--quiet",
                "--exit-zero",
                "--fix",
                "--select",
                "I",
                *_options(settings),
                *_isort(own),
            ],
            folder,
            names,
        )
        for name, body in bodies.items():
            path = Path(folder, name)
            path.write_text(
                _joined(path.read_text(encoding="utf-8"), body), encoding="utf-8", newline="\n"
            )
        if settings.formatter == "ruff":
            _ruff(
                ["format", "--isolated", "--no-cache", "--quiet", *_options(settings)],
                folder,
                names,
            )
        formatted = {name: Path(folder, name).read_text(encoding="utf-8") for name in texts}
    if settings.formatter == "black":
        return {name: _black(name, text, settings) for name, text in formatted.items()}
    return formatted


def format_modular(text: str, settings: Settings) -> str:
    """A modular file formatted: transformers is third-party in it, and patchgen its own."""
    text = format_texts({"modular.py": text}, settings, ["patchgen"])["modular.py"]
    # Flat files count transformers as their own.
    of_transformers = _OF_TRANSFORMERS.findall(text)
    without = _OF_TRANSFORMERS.sub("", text)
    first = re.search(r"^from patchgen\b", without, re.MULTILINE)
    if first is None:
        return text
    head, tail = (
        without[: first.start()].rstrip("\n"),
        re.sub("\n{4,}", "\n\n\n", without[first.start() :]),
    )
    third_party = re.search(r"^(import torch|from torch\b).*\Z", head, re.MULTILINE)
    return f"{head}\n{'' if third_party else chr(10)}{''.join(of_transformers)}\n{tail}"


def _joined(opening: str, body: str) -> str:
    """Opening and body with two blank lines below the imports, as isort sets them."""
    if not body.strip():
        return opening
    if not re.search(r"^(?:import|from) ", opening, re.MULTILINE):
        return opening + body
    return opening.rstrip("\n") + "\n\n\n" + body.lstrip("\n")


def _options(settings: Settings) -> list[str]:
    return [
        "--config",
        f"line-length = {settings.line_length}",
        "--config",
        'target-version = "py311"',
    ]


def _isort(own: Iterable[str]) -> list[str]:
    """What isort is told of packages; in no folder does it look for others."""
    known = json.dumps([*_FIRST_PARTY, *own])
    told = f"lines-after-imports = 2, known-first-party = {known}, detect-same-package = false"
    return ["--config", "src = []", "--config", f"lint.isort = {{ {told} }}"]


def _ruff(arguments: list[str], folder: str, names: Sequence[str]) -> None:
    # Files that are named are taken whatever git ignores around them.
    command = [ruff_program(), *arguments, "--", *names]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        message = (done.stderr or done.stdout).strip().replace(folder, "").partition("\n")[0]
        raise PatchgenError(
            "PG912", Location("ruff"), f"refused a generated text: {message}", "please report this"
        )


def _black(name: str, text: str, settings: Settings) -> str:
    try:
        import black.parsing
        import black.report  # half a second; only projects that choose it pay
    except ImportError as error:
        raise PatchgenError(
            "PG911", Location("black"), "is not installed", "pip install black"
        ) from error
    try:
        return black.format_file_contents(
            text, fast=False, mode=black.Mode(line_length=settings.line_length)
        )
    except black.report.NothingChanged:
        return text
    except black.parsing.InvalidInput as error:
        raise PatchgenError(
            "PG912", Location(name), f"black refused a generated text: {error}"
        ) from error
