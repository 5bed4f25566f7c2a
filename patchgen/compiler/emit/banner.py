"""Write the lines at the top of a generated file that say what it is.

They hold no version and no time, so that a file changes only when its sources change.  Versions are
in `patchgen.lock`.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.compiler.flat import BANNER


def banner(modular: str, parents: Iterable[str], followed: str | None = None) -> str:
    """The notice of origin and modification; `modular` is its display path, `parents` are modules.

    `followed` is the parent that the file is a variant of: the checked-in diff compares with it.
    """
    lines = [f"{BANNER} {modular}. Do not edit: edit that file and run `patchgen convert`."]
    for parent in parents:
        where = "."
        if parent == followed:
            where = "; what was changed stands in the diff beside this file."
        lines.append(f"Modified from {parent}{where}")
    return "".join(f"# {line}\n" for line in lines)
