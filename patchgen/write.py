"""Files written whole or not at all, one or many: staged beside their targets, verified, then moved into place.

A journal is written between staging and moving.  A run that was killed before it has changed nothing; one that was
killed after it is finished by the next.  A run that fails while moving puts back what it had moved.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from patchgen.errors import Location, PatchgenError

JOURNAL = "journal.json"
STALE_AFTER = 3600.0  # seconds; a process number may belong to another process by then
_TEMP = re.compile(r"\.patchgen-(\d+)-\d+\.tmp")
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one file: `data`, or nothing when it is to be removed."""

    path: Path
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Move:
    """A staged change: `temp` takes the place of `target`, whose former content is kept as `backup` meanwhile.

    An empty `temp` removes the target; an empty `backup` means that there was none.  Digests are of contents.
    """

    target: str
    temp: str
    backup: str
    old: str
    new: str


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Make `path` hold `data`; a reader sees the former content or this, never a part of either.

    Not `lasting`: a loss of power may undo it, which a cache need not wait for.
    """
    temp = _stage(path, data, lasting=lasting)
    try:
        os.replace(temp, path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise


def apply(changes: Sequence[Change], state: Path) -> None:
    """Make every change or none; `state` is a folder for the journal.

    The last change is moved last; without changes nothing is touched.  Raises OSError where a step fails; the files
    then are what they were before.
    """
    moves: list[Move] = []
    folders: list[Path] = []
    if not changes:
        return
    try:
        for change in changes:
            folders += _make_folders(change.path.parent)
            moves.append(_prepare(change))
        _verify(moves)
        replace_file(state / JOURNAL, json.dumps([asdict(move) for move in moves]).encode())
        for move in moves:
            _move(move)
        _sync({Path(move.target).parent for move in moves})
    except BaseException:
        _undo(moves, folders, state)
        raise
    (state / JOURNAL).unlink(missing_ok=True)
    _discard(moves)


def recover(state: Path) -> tuple[str, ...]:
    """Finish what a killed run had begun; the files that were moved.

    A target that was changed by others since then is left alone.
    """
    try:
        moves = [Move(**item) for item in json.loads((state / JOURNAL).read_bytes())]
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError):
        moves = []  # Not written by this version: what it staged is swept, so nothing has changed.
    finished = [move.target for move in moves if _finish(move)]
    (state / JOURNAL).unlink(missing_ok=True)
    _discard(moves)
    return tuple(finished)


def _finish(move: Move) -> bool:
    present = _digest(Path(move.target))
    if move.temp and _digest(Path(move.temp)) == move.new and present in (move.old, move.new):
        os.replace(move.temp, move.target)
        return True
    if not move.temp and present and present == move.old:
        os.unlink(move.target)
        return True
    return False


def sweep(folders: Iterable[Path]) -> None:
    """Remove what killed runs have staged in `folders` and never moved."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(folder)):
                found = _TEMP.fullmatch(entry.name)
                # Not the time of modification: a backup is a second name for a file that may be old.
                if found and (not _is_alive(int(found[1])) or time.time() - entry.stat().st_ctime > STALE_AFTER):
                    os.unlink(entry.path)


@contextlib.contextmanager
def one_at_a_time(state: Path, patience: float = 300.0) -> Iterator[None]:
    """Hold the lock of `state`: two runs that write to the same place take turns.

    Raises PatchgenError PG906 when another run holds it for longer than `patience` seconds.
    """
    from filelock import FileLock, Timeout

    state.mkdir(parents=True, exist_ok=True)
    lock = FileLock(state / "lock")
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        what = f"another run of patchgen has been writing here for {patience:.0f} seconds"
        raise PatchgenError("PG906", Location(str(state.name)), what, "wait for it to end, then try again") from None
    try:
        yield
    finally:
        lock.release()


def _prepare(change: Change) -> Move:
    target = change.path
    old = _digest(target)
    temp = "" if change.data is None else str(_stage(target, change.data))
    backup = ""
    if old:
        backup = str(_temp_name(target.parent))
        _keep(target, Path(backup))
    new = "" if change.data is None else hashlib.sha256(change.data).hexdigest()
    return Move(str(target), temp, backup, old, new)


def _stage(path: Path, data: bytes, *, lasting: bool = True) -> Path:
    """A file beside `path` with `data` and with the mode of `path`."""
    temp = _temp_name(path.parent)
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        try:
            _write(descriptor, data)
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temp, stat.S_IMODE(os.stat(path).st_mode))
            if lasting:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return temp


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        count = os.write(descriptor, rest)
        if count <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[count:]


def _keep(target: Path, backup: Path) -> None:
    """A second name for the content of `target`, or a copy where the file system has no links."""
    try:
        os.link(target, backup)
    except OSError:
        os.replace(_stage_copy(target), backup)


def _stage_copy(target: Path) -> Path:
    return _stage(target, target.read_bytes())


def _verify(moves: Iterable[Move]) -> None:
    for move in moves:
        if move.temp and _digest(Path(move.temp)) != move.new:
            raise OSError(errno.EIO, "what was written is not what is read back", move.target)


def _move(move: Move) -> None:
    if move.temp:
        os.replace(move.temp, move.target)
    else:
        os.unlink(move.target)


def _undo(moves: Sequence[Move], folders: Sequence[Path], state: Path) -> None:
    """Put back every former content; where even that fails, the journal stays and the next run finishes the work."""
    try:
        for move in reversed(moves):
            if _digest(Path(move.target)) == move.old:
                continue
            if move.backup:
                os.replace(move.backup, move.target)
            else:
                os.unlink(move.target)
    except OSError:
        return
    (state / JOURNAL).unlink(missing_ok=True)
    _discard(moves)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _discard(moves: Iterable[Move]) -> None:
    for move in moves:
        for name in (move.temp, move.backup):
            if name:
                with contextlib.suppress(OSError):
                    os.unlink(name)


def _make_folders(folder: Path) -> list[Path]:
    """Make `folder`; the folders that had to be made, outermost first."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _sync(folders: Iterable[Path]) -> None:
    """Make the moves themselves last through a loss of power, where the system lets a folder be opened."""
    for folder in sorted(folders):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _temp_name(folder: Path) -> Path:
    return folder / f".patchgen-{os.getpid()}-{next(_NUMBERS)}.tmp"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
