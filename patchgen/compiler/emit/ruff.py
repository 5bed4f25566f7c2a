"""Which ruff sorts imports and formats?"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from shutil import which

from patchgen.errors import Location, PatchgenError


@cache
def ruff_program() -> str:
    """The ruff that was installed with patchgen, else the one on the path.

    Raises PatchgenError PG911 where there is none.
    """
    found = _ruff()
    if found is None:
        raise PatchgenError(
            "PG911", Location("ruff"), "is not installed", "pip install ruff==0.14.10"
        )
    return found


def _ruff() -> str | None:
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.is_file() else which("ruff")


@cache
def ruff_state() -> str:
    """What is another text when the program is another one: releases are told by files that may be of another ruff."""
    found = _ruff()
    if found is None:
        return ""
    about = os.stat(found)
    return f"{found} {about.st_size} {about.st_mtime_ns}"


def clean_environment() -> dict[str, str]:
    """The environment without the variables that change what ruff does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
