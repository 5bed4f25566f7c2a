"""The lines at the top of a generated file that say what it is.

No version and no time: a file changes when what it was made from changes.  Versions are in `patchgen.lock`.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.compiler.flat import BANNER


def banner(modular: str, parents: Iterable[str], followed: str | None = None) -> str:
    """The notice of origin and modification; `modular` is the shown path, `parents` are module names.

    `followed` is the parent that the file is a variant of: the checked-in diff compares with that one.
    """
    lines = [f"{BANNER} {modular}. Do not edit: edit that file and run `patchgen convert`."]
    for parent in parents:
        changed = (
            "; what was changed stands in the diff beside this file." if parent == followed else "."
        )
        lines.append(f"Modified from {parent}{changed}")
    return "".join(f"# {line}\n" for line in lines)
