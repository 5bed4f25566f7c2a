"""Names of variants on the command line: `llama_loss` for the path of modular_llama_loss.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchgen.project.files import Modular, Project, discover
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean


def find_variants(project: Project, names: Sequence[str]) -> tuple[Path, ...]:
    """The paths that `names` are, or that the variants of these names have, in order.

    Raises PatchgenError PG506 for a name that is neither.
    """
    known: dict[str, Path] = {}
    if not all(Path(name).exists() for name in names):
        modulars = discover(project).modulars
        known = {one.path.stem.removeprefix("modular_"): one.path for one in modulars}
    found = []
    for name in names:
        if Path(name).exists():
            found.append(Path(name).resolve())
        elif name in known:
            found.append(known[name])
        else:
            what = "is no variant and no path"
            hint = did_you_mean(name, known) or "`patchgen list` lists the variants"
            raise PatchgenError("PG506", Location(name), what, hint)
    return tuple(found)


def named_modulars(project: Project, names: tuple[str, ...]) -> tuple[Modular, ...]:
    """The modular files that names of variants or paths stand for."""
    result = discover(project, find_variants(project, names))
    if result.problems:
        first = result.problems[0]
        raise PatchgenError(first.code, first.at, first.what, first.hint)
    return result.modulars
