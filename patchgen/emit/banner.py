"""The lines at the top of a generated file that say what it is.

No version and no time: a file changes when what it was made from changes.  Versions are in `patchgen.lock`.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.flat import BANNER


def banner(modular: str, parents: Iterable[str]) -> str:
    """The notice of origin and modification; `modular` is the shown path, `parents` are module names."""
    lines = [f"{BANNER} {modular}. Do not edit: edit that file and run `patchgen convert`."]
    lines += [f"Modified from {parent}; what was changed stands in the diff beside this file." for parent in parents]
    return "".join(f"# {line}\n" for line in lines)
