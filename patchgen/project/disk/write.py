"""Write many files, all or none: stage them beside their targets, then move them into place.

    stage      .tmp files beside the targets, with their final content
    journal    the list of moves, written to disk
    move       each .tmp file onto its target, the records last

A run that is killed before the journal is written has changed nothing.  The next run finishes one
that is killed after it.  A run that fails while it moves files puts back those that it moved.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from patchgen.syntax.regular import read_regular

JOURNAL = "journal.json"
_NUMBERS = itertools.count()


class Unfinished(OSError):
    """Some files were moved, and cannot be put back.

    The next run finishes the moves.
    """


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file: `data` is its content, or None to remove it."""

    path: Path
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Move:
    """A staged change: `temp` replaces `target`, whose former content is kept as `backup`.

    An empty `temp` removes the target.  An empty `backup` means that there was no target.  Digests
    are of contents.
    """

    target: str
    temp: str
    backup: str
    old: str
    new: str


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
    """Make every change or none; `state` is a folder for the journal.

    The last change is moved last.  Without changes, nothing is touched.  Raises OSError where a
    step fails; except for `Unfinished`, the files are then what they were before.
    """
    moves: list[Move] = []
    folders: list[Path] = []
    if not changes:
        return
    try:
        for change in changes:
            folders += _make_folders(change.path.parent)
            # Listed before its files are made, so that `_undo` finds them if a step fails.
            moves.append(_plan(change))
            with _blamed_on(moves[-1].target):
                _prepare(moves[-1], change.data)
        _verify(moves)
        journal = json.dumps([asdict(move) for move in moves]).encode()
        # From here on, a run that is killed is finished by the next one.
        replace_file(state / JOURNAL, journal)
        for move in moves:
            with _blamed_on(move.target):
                _move(move)
        _sync({Path(move.target).parent for move in moves})
    except BaseException as error:
        if _undo(moves, folders, state):
            raise
        # Not every exception is an OSError: Ctrl-C has neither number nor file.
        at = error.filename if isinstance(error, OSError) else None
        number = getattr(error, "errno", None)
        why = str(getattr(error, "strerror", error))
        raise Unfinished(number, why, at) from error
    (state / JOURNAL).unlink(missing_ok=True)
    discard(moves)


@contextlib.contextmanager
def _blamed_on(target: str) -> Iterator[None]:
    """Let errors name `target`, whatever file the step used.

    Users do not know the names of staged files.
    """
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = target, None
        raise


def _plan(change: Change) -> Move:
    """Choose the names that a change will use.

    No file is made yet, so that everything that is made can be found again.
    """
    old = content_digest(change.path)
    temp = "" if change.data is None else str(_temp_name(change.path.parent))
    backup = str(_temp_name(change.path.parent)) if old else ""
    new = "" if change.data is None else hashlib.sha256(change.data).hexdigest()
    return Move(str(change.path), temp, backup, old, new)


def _prepare(move: Move, data: bytes | None) -> None:
    """Stage the new content of a file, and keep the former one under a second name."""
    target = Path(move.target)
    if data is not None:
        _stage(Path(move.temp), data, target)
    if move.backup:
        try:
            # A second name for the same content costs nothing, however large the file is.
            os.link(target, move.backup)
        except OSError:
            # Not every file system has links.
            _stage(Path(move.backup), read_regular(target), target)


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


def _verify(moves: Iterable[Move]) -> None:
    """Raise OSError where a staged file does not hold what was written."""
    # Not every file system reports each failure when a file is written.
    for move in moves:
        if move.temp and content_digest(Path(move.temp)) != move.new:
            raise OSError(errno.EIO, "what was written is not what is read back", move.target)


def _move(move: Move) -> None:
    if move.temp:
        os.replace(move.temp, move.target)
    else:
        os.unlink(move.target)


def _undo(moves: Sequence[Move], folders: Sequence[Path], state: Path) -> bool:
    """Put back every former content.

    Returns False where that fails; the journal then stays, and the next run goes on.
    """
    try:
        for move in reversed(moves):
            # It was not moved yet.
            if content_digest(Path(move.target)) == move.old:
                continue
            if move.backup:
                os.replace(move.backup, move.target)
            else:
                os.unlink(move.target)
    except OSError:
        return False
    (state / JOURNAL).unlink(missing_ok=True)
    discard(moves)
    for folder in reversed(folders):
        # One that is not empty holds a file of somebody else by now.
        with contextlib.suppress(OSError):
            folder.rmdir()
    return True


def discard(moves: Iterable[Move]) -> None:
    """Remove staged files and backups of the moves."""
    for move in moves:
        for name in (move.temp, move.backup):
            if name:
                with contextlib.suppress(OSError):
                    os.unlink(name)


def _make_folders(folder: Path) -> list[Path]:
    """Make `folder`; returns the folders that were made, the outermost first."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


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


def content_digest(path: Path) -> str:
    """The sha256 of the file at `path`; empty where there is none."""
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except FileNotFoundError:
        return ""
