"""Read the bytes of regular files only: reading a pipe would wait, and a device may never end.

patchgen reads all that it is given here: sources, outputs, configuration, records.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str) -> bytes:
    """The bytes of the regular file at `path`.

    Raises OSError at once where there is none, for pipes, sockets and devices too.
    """
    # Before it is opened, as opening alone can have effects.
    _require_regular(os.stat(path).st_mode, path)
    # If a pipe takes its place in between, opening it does not wait either.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        about = os.fstat(descriptor)
        _require_regular(about.st_mode, path)
        return _read_all(descriptor, about.st_size)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int) -> bytes:
    """Everything from an open file of about `size` bytes."""
    # A file object asks the system twice as often, which shows where 2,000 files are searched.
    parts: list[bytes] = []
    # Some files of the system say that they are empty.
    while part := os.read(descriptor, size + 1024):
        parts.append(part)
    return b"".join(parts)


def read_regular_text(path: Path | str) -> str:
    """The same as UTF-8 text with `\\n` line ends; raises UnicodeDecodeError too."""
    return read_regular(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _require_regular(mode: int, path: Path | str) -> None:
    """Raise OSError for everything that is no file of bytes at rest."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
