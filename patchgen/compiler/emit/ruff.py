"""Find the ruff that sorts imports and formats."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from patchgen.syntax.errors import Location, PatchgenError


@cache
def ruff_program() -> str:
    """The path of the ruff that was installed with patchgen, else of the one on the path.

    Raises PatchgenError PG911 where there is none.
    """
    found = _find_ruff()
    if found is None:
        hint = "pip install ruff==0.14.10"
        raise PatchgenError("PG911", Location("ruff"), "is not installed", hint)
    return found


def _find_ruff() -> str | None:
    beside_python = Path(sys.executable).with_name("ruff")
    if beside_python.is_file():
        return str(beside_python)
    # Slow to load, and most installations have ruff beside Python.
    from shutil import which

    return which("ruff")


@cache
def ruff_state() -> str:
    """A text that changes when the program changes.

    The metadata of the installed package may belong to another ruff than the one that runs.
    """
    found = _find_ruff()
    if found is None:
        return ""
    about = os.stat(found)
    return f"{found} {about.st_size} {about.st_mtime_ns}"


def clean_environment() -> dict[str, str]:
    """The environment without the variables that change what ruff does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
