"""Remove what runs staged and never moved, because they were killed."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

STALE_AFTER = 3600.0  # seconds; a process number may belong to another process by then
_TEMP = re.compile(r"\.patchgen-(\d+)-\d+\.tmp")


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
