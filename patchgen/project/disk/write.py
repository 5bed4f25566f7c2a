"""Write many files: stage them all beside their targets, then move each into place.

    stage      .tmp files beside the targets, with their final content
    move       each .tmp file onto its target, the records last

Each move is atomic, so a target has its former content or its new one, never a part.  A run that
fails puts back what it moved.  A run that is killed leaves some targets new and the records old:
`check` names these outputs as stale, and the next `convert` writes the rest.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.project.places import MARK
from patchgen.syntax.regular import read_regular

_NUMBERS = itertools.count()


class Unfinished(OSError):
    """Some files were moved, and cannot be put back.

    Each is complete; `convert` writes the others.
    """


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file: `data` is its content, or None to remove it."""

    path: Path
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Move:
    """A change whose content is staged as `temp`; no `temp` removes the target.

    `former` is what to put back if a later step fails; None where there was no target.
    """

    target: Path
    temp: Path | None
    former: bytes | None


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write `data` to `path`; a reader sees the former content or the new one, never a part.

    Without `lasting`, a loss of power may undo it; for a cache that does no harm.
    """
    temp = _temp_name(path.parent)
    try:
        _stage(temp, data, path, lasting=lasting)
        os.replace(temp, path)
    except BaseException:
        # Ctrl-C too must leave no staged file.
        temp.unlink(missing_ok=True)
        raise


def apply(changes: Sequence[Change], state: Path) -> None:
    """Make every change or none, the last one last; `state` is a folder for the mark.

    Without changes, nothing is touched.  Raises OSError where a step fails; except for
    `Unfinished`, the files are then what they were before.
    """
    if not changes:
        return
    moves: list[Move] = []
    moved: list[Move] = []
    folders: list[Path] = []
    mark = state / MARK
    try:
        for change in changes:
            folders += _make_folders(change.path.parent)
            # Listed before its file is made, so that `_discard` finds it if the step fails.
            moves.append(_plan(change))
            with _blamed_on(change.path):
                _prepare(moves[-1], change.data)
        mark.touch()
        for move in moves:
            moved.append(move)
            with _blamed_on(move.target):
                _move(move)
        _sync({move.target.parent for move in moves})
    except BaseException as error:
        _discard(moves)
        if not _undo(moved):
            # Not every exception is an OSError: Ctrl-C has neither number nor file.
            at = error.filename if isinstance(error, OSError) else None
            number = getattr(error, "errno", None)
            why = str(getattr(error, "strerror", error))
            raise Unfinished(number, why, at) from error
        _remove_empty(folders)
        raise
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


@contextlib.contextmanager
def _blamed_on(target: Path) -> Iterator[None]:
    """Let errors name `target`, whatever file the step used.

    Users do not know the names of staged files.
    """
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(target), None
        raise


def _plan(change: Change) -> Move:
    """Choose the name of the staged file, and read what the change replaces."""
    temp = None if change.data is None else _temp_name(change.path.parent)
    return Move(change.path, temp, _content(change.path))


def _prepare(move: Move, data: bytes | None) -> None:
    """Stage the new content.  Raises OSError where the staged file does not hold it."""
    if move.temp is None or data is None:
        return
    _stage(move.temp, data, move.target)
    # Not every file system reports each failure when a file is written.
    if _content(move.temp) != data:
        raise OSError(errno.EIO, "what was written is not what is read back")


def _stage(temp: Path, data: bytes, target: Path, *, lasting: bool = True) -> None:
    """Write `data` to the file `temp`, with the mode of `target`."""
    # O_EXCL refuses what stands there already, also a link that leads elsewhere.  O_BINARY keeps
    # Windows from writing other line ends.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temp, flags, 0o666)
    try:
        _write(descriptor, data)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temp, stat.S_IMODE(os.stat(target).st_mode))
        if lasting:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    rest = memoryview(data)
    # The system may write a part only, and says how much.
    while rest:
        count = os.write(descriptor, rest)
        if count <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[count:]


def _move(move: Move) -> None:
    if move.temp is not None:
        os.replace(move.temp, move.target)
    else:
        os.unlink(move.target)


def _undo(moved: Iterable[Move]) -> bool:
    """Put back the former content of each target that changed; returns False where that fails."""
    try:
        for move in moved:
            if _content(move.target) == move.former:
                continue
            if move.former is None:
                os.unlink(move.target)
            else:
                replace_file(move.target, move.former)
    except OSError:
        return False
    return True


def _discard(moves: Iterable[Move]) -> None:
    """Remove the staged files that were not moved."""
    for move in moves:
        if move.temp is not None:
            with contextlib.suppress(OSError):
                os.unlink(move.temp)


def _make_folders(folder: Path) -> list[Path]:
    """Make `folder`; returns the folders that were made, the outermost first."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that were made; one with a file of somebody else in it stays."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _sync(folders: Iterable[Path]) -> None:
    """Let moves survive a loss of power, where the system can open a folder."""
    for folder in sorted(folders):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _temp_name(folder: Path) -> Path:
    # Beside the target, because a file is moved at once within one file system only.  The number of
    # the process tells `sweep` whether the run still works.
    return folder / f".patchgen-{os.getpid()}-{next(_NUMBERS)}.tmp"


def _content(path: Path) -> bytes | None:
    """The content of the file at `path`; None where there is none."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
