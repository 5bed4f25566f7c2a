"""Clean up after runs that were killed.

Moves in a journal are finished.  Staged files that no journal names are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from patchgen.project.disk.write import JOURNAL, Move, content_digest, discard
from patchgen.syntax.regular import read_regular

STALE_AFTER = 3600.0  # seconds; a process number may belong to another process by then
_TEMP = re.compile(r"\.patchgen-(\d+)-\d+\.tmp")


def recover(state: Path, root: Path) -> tuple[str, ...]:
    """Finish the moves that a killed run started below `root`.  Returns the files that were moved.

    A target that others changed since then stays.  So does a file that patchgen would not have
    staged, because a journal may come with a checkout.
    """
    try:
        moves = [Move(**item) for item in json.loads(read_regular(state / JOURNAL))]
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, RecursionError):
        moves = []  # Not written by this version: what it staged is swept, so nothing has changed.
    moves = [move for move in moves if _is_plausible(move, root)]
    finished = [move.target for move in moves if _finish(move)]
    (state / JOURNAL).unlink(missing_ok=True)
    discard(moves)
    return tuple(finished)


def _is_plausible(move: Move, root: Path) -> bool:
    """Whether `move` stays below `root` and concerns files with the names of staged ones."""
    target = Path(move.target)
    # A link on the way could lead out of the project.
    if target.resolve() != target or not target.is_relative_to(root):
        return False
    for name in (move.temp, move.backup):
        if not name:
            continue
        staged = Path(name)
        if staged.parent != target.parent or not _TEMP.fullmatch(staged.name):
            return False
    return True


def _finish(move: Move) -> bool:
    """Do what is left of a move; returns whether something was."""
    present = content_digest(Path(move.target))
    if not move.temp:
        # It removes the target, if that is there and nobody has changed it.
        if present and present == move.old:
            os.unlink(move.target)
            return True
        return False
    is_staged = content_digest(Path(move.temp)) == move.new
    # Somebody may have given the target its new content by hand: to move the staged file does no
    # harm then.
    if is_staged and present in (move.old, move.new):
        os.replace(move.temp, move.target)
        return True
    return False


def sweep(folders: Iterable[Path]) -> None:
    """Remove files in `folders` that killed runs staged and never moved."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(folder)):
                found = _TEMP.fullmatch(entry.name)
                if found and _is_left_over(entry, int(found[1])):
                    os.unlink(entry.path)


def _is_left_over(entry: os.DirEntry[str], process: int) -> bool:
    """Whether the run with the number `process`, which staged the file, is over."""
    if not _is_alive(process):
        return True
    # Not the time of modification: a backup is a second name for a file that may be old.
    return time.time() - entry.stat().st_ctime > STALE_AFTER


def _is_alive(process: int) -> bool:
    """Whether there may be a process with that number."""
    try:
        # Signal 0 does nothing but ask whether there is such a process.
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # It is another user's, or no system counts that far: the age of the file decides.
        return True
    return True
