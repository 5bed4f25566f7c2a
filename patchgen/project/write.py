"""Write files, each at once and the lock last, one run at a time.

A file is written beside its target and then moved onto it, so that a reader sees the former content
or the new one, never a part.  A run that fails or is killed leaves some outputs new and the records
old: `check` names these, and the next `convert` writes the rest.  Nothing is lost, because every
output follows from its modular file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.project.files import Project
from patchgen.project.places import LOCK, state_of
from patchgen.syntax.errors import Location, PatchgenError

PATIENCE = 300.0  # seconds that a run waits for its turn
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file: `data` is its content, or None to remove it."""

    path: Path
    data: bytes | None


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write `data` to `path`, whole or not at all, with the mode of the file that is there.

    Without `lasting`, a loss of power may undo it; for a cache that does no harm.
    """
    temp = path.with_name(f"{_temp_prefix(path)}{os.getpid()}-{next(_NUMBERS)}.tmp")
    try:
        # "x" refuses what stands there already, also a link that leads elsewhere.
        with open(temp, "xb") as file:
            file.write(data)
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temp, stat.S_IMODE(os.stat(path).st_mode))
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        # Ctrl-C too must leave nothing behind.
        temp.unlink(missing_ok=True)
        raise


def write_new(path: Path, text: str, force: bool, shown: str) -> None:
    """Write a modular file that messages call `shown`."""
    refuse_another(path, text, force, shown)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())


def refuse_another(path: Path, text: str, force: bool, shown: str) -> None:
    """Raise PG804 where `path`, which messages call `shown`, is there with another text."""
    if path.exists() and path.read_text(encoding="utf-8") != text and not force:
        what, hint = "exists already, with another text", "--force replaces it"
        raise PatchgenError("PG804", Location(shown), what, hint)


def apply(changes: Sequence[Change]) -> None:
    """Make every change, in order.  Raises the OSError of a step that fails, about its target."""
    for change in changes:
        try:
            if change.data is None:
                os.unlink(change.path)
                continue
            change.path.parent.mkdir(parents=True, exist_ok=True)
            # Of runs that were killed: one run at a time writes here.
            for left_over in change.path.parent.glob(f"{_temp_prefix(change.path)}*.tmp"):
                os.unlink(left_over)
            replace_file(change.path, change.data)
        except OSError as error:
            # Users do not know the names of the files beside it.
            error.filename, error.filename2 = str(change.path), None
            raise


def _temp_prefix(path: Path) -> str:
    # Not the name itself, which may be as long as the file system allows.
    return f".patchgen-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}-"


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

    file.parent.mkdir(parents=True, exist_ok=True)
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
