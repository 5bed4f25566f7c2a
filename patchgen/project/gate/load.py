"""Load what earlier runs recorded: what outputs were made from, and the parents of overrides.

In: the project.  Out: the records of every place that a run may write to.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from pathlib import Path

from patchgen.project.files import Found, Project, is_below
from patchgen.project.gate.lock import LazyRecords, Record, read_later
from patchgen.project.gate.overrides import Records, read_overrides
from patchgen.project.places import is_own, lock_of, state_of


def load_records(project: Project, found: Found | None = None) -> LazyRecords:
    """The records of every place that a run may write to, by the paths of outputs.

    With `found`, those of places where the run has no folder are left out.  With `--out`, the
    project's own records are left out, because they are about other files.
    """
    roots = project.writable
    if project.out is not None:
        roots = () if is_own(project, project.out) else (project.out,)
    if found is not None:
        folders = {*found.folders, *(modular.folder for modular in found.modulars)}
        roots = tuple(root for root in roots if _touches(root, folders))
    readers: dict[Path, Callable[[], Record]] = {}
    for root in roots:
        base = base_of(project, root)
        for name, reader in read_later(lock_of(project, root)).items():
            readers[base / name] = reader
    return LazyRecords(readers)


def _touches(root: Path, folders: Set[Path]) -> bool:
    """Whether one of `folders` is below or around `root`."""
    return any(is_below(folder, root) or is_below(root, folder) for folder in folders)


def load_overrides(project: Project) -> Records:
    """The recorded texts below overrides; with `--out`, outputs have no records."""
    is_recorded = project.out is None and is_own(project, project.home)
    return read_overrides(project.home) if is_recorded else {}


def base_of(project: Project, root: Path) -> Path:
    """The folder that the names in the records of `root` start from.

    All places inside the project share one file of records.
    """
    return project.home if state_of(project, root) == state_of(project, project.home) else root
