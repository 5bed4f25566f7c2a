"""Let one run write at a time, and let readers see no half-written state.

A run that writes holds a lock file.  A run that only reads looks at the traces of writing before
and after, and reads again under the lock if they changed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from patchgen.project.disk.sweep import sweep
from patchgen.project.files import Project
from patchgen.project.places import ANSWERS, LOCK, MARK, OUTCOMES, lock_of, make_state, state_of
from patchgen.syntax.errors import Location, PatchgenError

FILE = "lock"  # in the folder of the state
PATIENCE = 300.0  # seconds that a run waits for its turn

_Seen = TypeVar("_Seen")


@contextlib.contextmanager
def hold_write_lock(project: Project, root: Path, folders: Iterable[Path]) -> Iterator[None]:
    """Hold the lock for writing below `root`; first clean up, there and in `folders`, after killed
    runs.

    Raises PatchgenError PG906 when another run does not end, and OSError where writing is
    impossible.
    """
    state = make_state(state_of(project, root))
    with _alone(state / FILE, LOCK, PATIENCE):
        # Under the lock, where a mark can only be that of a run that was killed.
        (state / MARK).unlink(missing_ok=True)
        sweep(sorted({*folders, root, state, state / OUTCOMES, state / ANSWERS}))
        yield


@contextlib.contextmanager
def hold_record_lock(project: Project, record: Path) -> Iterator[None]:
    """Hold the lock of a record that a long run writes again with each result.

    Raises PatchgenError PG906 at once where another process holds it.
    """
    state = make_state(state_of(project, project.home))
    name = hashlib.sha256(str(record.absolute()).encode()).hexdigest()[:16]
    with _alone(state / f"{name}.lock", str(record), 0):
        yield


def read_consistently(project: Project, look: Callable[[], _Seen]) -> _Seen:
    """The result of `look` while no other run writes; it is called again when one did."""
    before = _traces(project)
    found = look()
    if MARK not in before and _traces(project) == before:
        return found
    with contextlib.ExitStack() as held:
        for root in project.writable:
            # Where no lock can be made, no other run writes either.
            with contextlib.suppress(OSError):
                held.enter_context(_alone(state_of(project, root) / FILE, LOCK, PATIENCE))
        return look()


def _traces(project: Project) -> tuple[str, ...]:
    """A state that changes when another run writes, and that names its mark while it does."""
    traces = []
    for root in project.writable:
        for path in (state_of(project, root) / MARK, lock_of(project, root)):
            with contextlib.suppress(OSError):
                traces += [path.name, str(path.stat().st_mtime_ns)]
    return tuple(traces)


@contextlib.contextmanager
def _alone(file: Path, written: str, patience: float) -> Iterator[None]:
    """Hold the lock `file`; wait `patience` seconds for a process that holds it.

    `written` is the file that is written under the lock, as a message names it.
    """
    # Slow to load, and most runs find nothing to write.
    from filelock import FileLock, Timeout

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
