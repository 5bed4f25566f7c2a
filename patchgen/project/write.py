"""Write files, each at once and the lock last, one run at a time.

A run that fails or is killed leaves some outputs new and the records old: `check` names these, and
the next `convert` writes the rest.  Nothing is lost, because every output follows from its modular
file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import disk
from patchgen.project.files import Project
from patchgen.project.places import LOCK, state_of
from patchgen.syntax.errors import Location, PatchgenError

PATIENCE = 300.0  # seconds that a run waits for its turn


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file: `data` is its content, or None to remove it."""

    path: Path
    data: bytes | None


def write_new(path: Path, text: str, within: Path, force: bool, shown: str) -> None:
    """Write a modular file that messages call `shown`, below `within`."""
    refuse_another(path, text, within, force, shown)
    disk.write(path, text, within)


def refuse_another(path: Path, text: str, within: Path, force: bool, shown: str) -> None:
    """Raise PG804 where `path`, which messages call `shown`, is there with another text.

    Raises PG904 where it lies outside of `within`.
    """
    disk.confine(path, within)
    if path.exists() and disk.text_of(path) != text and not force:
        what = "exists already, with another text"
        hint = "--force replaces it"
        raise PatchgenError("PG804", Location(shown), what, hint)


def apply(changes: Sequence[Change], within: disk.Folders) -> None:
    """Make every change, in order.  Raises the OSError of a step that fails, about its target."""
    for change in changes:
        if change.data is None:
            disk.remove(change.path, within)
            continue
        # Of runs that were killed: one run at a time writes here.
        for left_over in change.path.parent.glob(f"{disk.temp_prefix(change.path)}*.tmp"):
            disk.remove(left_over, within)
        disk.write(change.path, change.data, within)


@contextlib.contextmanager
def hold_write_locks(project: Project, roots: Iterable[Path]) -> Iterator[None]:
    """Hold the locks for writing below `roots`.

    Raises PatchgenError PG906 when another run does not end, and OSError where writing is
    impossible.
    """
    with contextlib.ExitStack() as held:
        # Every run takes them in the same order, so that no two wait for each other.
        for state in sorted({state_of(project, root) for root in roots}):
            held.enter_context(_alone(state / "lock", LOCK, PATIENCE))
        yield


@contextlib.contextmanager
def _alone(file: Path, written: str, patience: float) -> Iterator[None]:
    """Hold the lock `file`; wait `patience` seconds for a process that holds it.

    `written` is the file that is written under the lock, as a message names it.
    """
    # Slow to load, and most runs find nothing to write.
    from filelock import FileLock, Timeout

    disk.make_private(file.parent)
    # The system frees it when the process ends, so that a killed run blocks nobody.
    lock = FileLock(file)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        what = "another run of patchgen is writing here"
        if patience:
            what = f"another run of patchgen has been writing here for {patience:.0f} seconds"
        hint = "wait for it to end, then try again"
        raise PatchgenError("PG906", Location(written), what, hint) from None
    try:
        yield
    finally:
        lock.release()
