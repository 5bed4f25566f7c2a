"""Text to formatted text, by the formatter that the project chose.

Several texts go to one process: starting ruff costs more than formatting a file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shutil import which

from patchgen.errors import Location, PatchgenError
from patchgen.settings import Settings

# What transformers' own pyproject asks of isort; the diff to the parent is then the variant alone.
_ISORT = 'lint.isort = { lines-after-imports = 2, known-first-party = ["transformers"] }'


def format_texts(texts: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Each named text formatted: imports sorted, then the style of `settings.formatter`.

    Raises PatchgenError PG901 when the formatter is not installed, PG902 when it refuses a text.
    """
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text, encoding="utf-8", newline="\n")
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
            ],
            folder,
        )
        if settings.formatter == "ruff":
            _ruff(["format", "--isolated", "--no-cache", "--quiet", *_options(settings, lint=False)], folder)
        formatted = {name: Path(folder, name).read_text(encoding="utf-8") for name in texts}
    if settings.formatter == "black":
        return {name: _black(name, text, settings) for name, text in formatted.items()}
    return formatted


def _options(settings: Settings, lint: bool = True) -> list[str]:
    options = ["--config", f"line-length = {settings.line_length}", "--config", 'target-version = "py311"']
    return [*options, "--config", _ISORT] if lint else options


@cache
def ruff_program() -> str:
    """The ruff that was installed with patchgen, else the one on the path."""
    beside = Path(sys.executable).with_name("ruff")
    found = str(beside) if beside.is_file() else which("ruff")
    if found is None:
        raise PatchgenError("PG901", Location("ruff"), "is not installed", "pip install ruff==0.14.10")
    return found


def _ruff(arguments: list[str], folder: str) -> None:
    done = subprocess.run([ruff_program(), *arguments, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr or done.stdout).strip().replace(folder, "").partition("\n")[0]
        raise PatchgenError("PG902", Location("ruff"), f"refused a generated text: {message}", "please report this")


def _black(name: str, text: str, settings: Settings) -> str:
    import black.parsing
    import black.report  # half a second; only projects that choose it pay

    try:
        return black.format_file_contents(text, fast=False, mode=black.Mode(line_length=settings.line_length))
    except black.report.NothingChanged:
        return text
    except black.parsing.InvalidInput as error:
        raise PatchgenError("PG902", Location(name), f"black refused a generated text: {error}") from error
