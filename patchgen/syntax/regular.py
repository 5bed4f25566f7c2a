"""Read the bytes of regular files only: reading a pipe would wait, and a device may never end.

patchgen reads all that it is given here: sources, outputs, configuration, records.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(
    path: Path | str, limit: int | None = None, about: os.stat_result | None = None
) -> bytes:
    """The bytes of the regular file at `path`; `about` is what `os.stat` said of it just now.

    Raises OSError at once where there is none, for pipes, sockets and devices too, and for a file
    that has more bytes than the `limit`.
    """
    # Before it is opened, as opening alone can have effects.
    _require_regular(about or os.stat(path), path, limit)
    # If a pipe takes its place in between, opening it does not wait either.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        opened = os.fstat(descriptor)
        _require_regular(opened, path, limit)
        return _read_all(descriptor, opened.st_size)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int) -> bytes:
    """Everything from an open file of about `size` bytes."""
    # A file object asks the system twice as often, which shows where 2,000 files are searched.
    data = os.read(descriptor, size + 1024)
    if len(data) == size > 0:
        return data
    # Some files of the system say that they are empty.
    parts = [data]
    while parts[-1]:
        parts.append(os.read(descriptor, size + 1024))
    return b"".join(parts)


def read_regular_text(path: Path | str) -> str:
    """The same as UTF-8 text with `\\n` line ends; raises UnicodeDecodeError too."""
    return read_regular(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _require_regular(about: os.stat_result, path: Path | str, limit: int | None) -> None:
    """Raise OSError for everything that is no file of bytes at rest, of at most `limit` bytes."""
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    if limit is not None and about.st_size > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
