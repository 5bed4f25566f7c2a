"""The fork as it is read: formatted, so that tabs and layouts of its own do not matter."""

from __future__ import annotations

import re
from pathlib import Path

from patchgen.author.align.file import File, read_file
from patchgen.compiler.emit.format import format_texts
from patchgen.compiler.flat import BANNER
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.text import make_source, parse, read_source

_MADE = re.compile(rf"^# {re.escape(BANNER)} (\S+)\. Do not edit", re.MULTILINE)


def read_fork(
    path: Path, display_path: str, settings: Settings, *, generated: bool = False
) -> File:
    """The fork at `path`; `generated` takes an output of patchgen like any other file.

    Raises PatchgenError PG805 for an output of patchgen, PG001 to PG006 for what cannot be read or
    is not Python, and PG806 for a file without a class.
    """
    source = read_source(path, display_path=display_path)
    made = _MADE.search(source.text)
    if made is not None and not generated:
        raise PatchgenError(
            "PG805",
            Location(display_path, 1, 1),
            f"is generated from {made[1]}",
            "edit that file instead",
        )
    parse(source)
    text = format_texts({"fork.py": source.text}, settings)["fork.py"]
    fork = read_file(make_source(text, display_path))
    if not fork.classes:
        what = "is no fork of a modeling file: it has no class"
        raise PatchgenError(
            "PG806", Location(display_path), what, "name the file with the model's classes"
        )
    return fork
