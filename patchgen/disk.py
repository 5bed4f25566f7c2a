"""The one door to the disk: each file that patchgen reads, writes, moves or deletes.

What is read may be a stranger's: a pipe that waits, a device or a file of the system that never
ends, a link to a secret.  So reading asks for a regular file and for a limit first.

What is written stays below folders that the caller names: the project, or what the command line
says.  A link that leads out of them is refused; one that stays inside stands for the file that it
leads to.

A test finds the calls of other modules that do not come through here.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
import itertools
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError

# The most bytes of a file: of one that people write; of records, reports and settings, which tools
# write; and of data and weights, which are read piece by piece.
SOURCE, RECORD, DATA = 5_000_000, 64_000_000, 1 << 40
_NUMBERS = itertools.count()
Folders = Path | Sequence[Path]

# Reading


def read_bytes(path: Path | str, limit: int = SOURCE, about: os.stat_result | None = None) -> bytes:
    """The bytes of the regular file at `path`; `about` is what `os.stat` said of it just now.

    Raises OSError at once where there is none, for pipes, sockets, devices and files that the
    system makes up, and for a file with more bytes than `limit`.
    """
    descriptor, size = _open(path, limit, about)
    try:
        return _read_all(descriptor, size, path, limit)
    finally:
        os.close(descriptor)


def read_start(path: Path | str, most: int) -> bytes:
    """The first bytes of the regular file at `path`, `most` of them or all; raises OSError."""
    descriptor, _ = _open(path, DATA)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def read_text(path: Path | str, limit: int = SOURCE) -> str:
    """The same as UTF-8 text with `\\n` line ends; raises OSError, and UnicodeDecodeError too."""
    return read_bytes(path, limit).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path | str, limit: int = RECORD) -> Any:
    """The value in a JSON file.  Raises OSError, and ValueError for what is no JSON."""
    try:
        return json.loads(read_text(path, limit))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def text_of(path: Path | str) -> str:
    """The text of a file that has to be there.  Raises PatchgenError PG001 to PG003."""
    name = os.fspath(path)
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise PatchgenError("PG003", Location(name), f"is no text in UTF-8: {error}") from error
    except OSError as error:
        raise unreadable(error, name) from error


def unreadable(error: OSError, name: str) -> PatchgenError:
    """PG002 for a file that is too large, else PG001."""
    if error.errno == errno.EFBIG:
        return PatchgenError("PG002", Location(name), str(error.strerror), "split the file")
    what = error.strerror or str(error)
    what = what if what.startswith("is ") else f"cannot be read: {what}"
    return PatchgenError("PG001", Location(name), what)


def open_file(path: Path | str) -> io.BufferedReader:
    """The regular file at `path`, open for reading piece by piece; raises OSError."""
    descriptor, _ = _open(path, DATA)
    return os.fdopen(descriptor, "rb")


def digest_of_data(path: Path) -> str:
    """The sha256 of a file of any size."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: Path | str, limit: int, about: os.stat_result | None = None) -> tuple[int, int]:
    """A descriptor of the regular file at `path`, and the size of the file."""
    # Before it is opened, as opening alone can have effects.
    _require_regular(about or os.stat(path), path, limit)
    # If a pipe takes its place in between, opening it does not wait either.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        opened = os.fstat(descriptor)
        _require_regular(opened, path, limit)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, opened.st_size


def _require_regular(about: os.stat_result, path: Path | str, limit: int) -> None:
    """Raise OSError for everything that is no file of bytes at rest, of at most `limit` bytes."""
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    if about.st_size > limit:
        raise _too_large(path, about.st_size, limit)


def _too_large(path: Path | str, size: int, limit: int) -> OSError:
    what = f"is {size:,} bytes long; the limit is {limit:,}"
    return OSError(errno.EFBIG, what, os.fspath(path))


def _read_all(descriptor: int, size: int, path: Path | str, limit: int) -> bytes:
    """Everything from an open file, which had `size` bytes when it was opened."""
    # A file object asks the system twice as often, which shows where 2,000 files are searched.
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    # What the system makes up, as below /proc, says that it is empty, and may never end.
    if size == 0:
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    # It changes meanwhile, or the system gives less at a time.
    whole = bytearray(data)
    while piece := os.read(descriptor, 1 << 20):
        whole += piece
        if len(whole) > limit:
            raise _too_large(path, len(whole), limit)
    return bytes(whole)


# Where something may be written


def confine(path: Path, within: Folders) -> Path:
    """`path` with links followed, if that lies in one of the folders `within`.

    Raises PatchgenError PG904 otherwise, and for what is git's own.
    """
    tops = [top.resolve() for top in ([within] if isinstance(within, Path) else within)]
    real = path.resolve()
    top = next((top for top in tops if real.is_relative_to(top)), None)
    if top is not None and ".git" not in real.relative_to(top).parts:
        return real
    what = f"lies outside {tops[0].name}" if top is None else "belongs to git"
    hint = "files go into the project, or into a folder that the command line names"
    link = next((place for place in (path, *path.parents) if place.is_symlink()), None)
    if link == path:
        hint = "it is a symbolic link: put a file in its place, or delete it"
    elif link is not None:
        hint = f"{link.name} is a symbolic link: put a folder in its place, or delete it"
    named = path.absolute()
    home = next((top for top in tops if named.is_relative_to(top)), None)
    shown = named.relative_to(home).as_posix() if home is not None else str(path)
    raise PatchgenError("PG904", Location(shown), what, hint)


def require_named(folder: Path, home: Path) -> None:
    """Raise PG904 where `folder`, which a person named, is in `home` and a link leads it out.

    The links of a project come with its checkout; nobody sees in a name where they lead.
    """
    home = home.resolve()
    named = Path(os.path.abspath(folder))
    is_inside = any(place.resolve().is_relative_to(home) for place in (named, *named.parents))
    if is_inside and not named.resolve().is_relative_to(home):
        what = f"is a symbolic link, or lies behind one: it leads out of {home.name}"
        raise PatchgenError("PG904", Location(str(folder)), what, f"name {named.resolve()} itself")


def require_own(path: Path, folder: Path) -> None:
    """Raise PG904 where `path`, in the folder of a model, is a link to a file of something else.

    In the Hub's cache, the files of a model are links to `blobs` beside `snapshots`.
    """
    folder = folder.resolve()
    caches = [place for place in folder.parents if place.name.startswith("models--")]
    if not path.resolve().is_relative_to([folder, *caches][-1]):
        what = f"is a link that leads out of {folder.name}"
        raise PatchgenError("PG904", Location(str(path)), what, "put the file itself in its place")


# Writing


def write(path: Path, data: bytes | str, within: Folders, *, lasting: bool = True) -> None:
    """Write `data` to `path` below `within`, whole or not at all, with the mode of what is there.

    A file is written beside its target and then moved onto it, so that a reader sees the former
    content or the new one, never a part.  Folders that lack are made.  Without `lasting`, a loss of
    power may undo it.  Raises PatchgenError PG904 as `confine`, and OSError about `path`.
    """
    path = confine(path, within)
    temp = path.with_name(f"{temp_prefix(path)}{os.getpid()}-{next(_NUMBERS)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" refuses what stands there already, also a link that leads elsewhere.
        with open(temp, "xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temp, stat.S_IMODE(os.stat(path).st_mode))
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException as error:
        # Ctrl-C too must leave nothing behind.
        temp.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # Users do not know the names of the files beside it.
            error.filename, error.filename2 = str(path), None
        raise


def temp_prefix(path: Path) -> str:
    """How the names of files begin that are written beside `path`."""
    # Not the name itself, which may be as long as the file system allows.
    return f".patchgen-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}-"


def fill(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write `files`, by their paths below `folder`, which is a `scratch` folder or a new one."""
    for name, data in files.items():
        write(folder / name, data, folder, lasting=False)


def copy(path: Path, target: Path, within: Folders) -> None:
    """Copy the regular file at `path`, of any size, to `target`, where nothing may be."""
    # Slow to load, and most runs copy nothing.
    import shutil

    target = confine(target, within)
    with open_file(path) as source, open(target, "xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def write_figure(path: Path, figure: Any) -> None:
    """Write a figure of matplotlib in the format that the name of `path` asks for."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix(".") or None)
    write(path, drawn.getvalue(), path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder that a command line names, if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)


def make_private(folder: Path) -> bool:
    """Make `folder` for this user alone if it is not there; whether nobody else may write in it."""
    lacking = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(lacking):
        place.mkdir(mode=0o700, exist_ok=True)
    # Not what a link leads to, which somebody else may have put there.
    about = folder.lstat()
    if not hasattr(os, "getuid"):
        return True
    is_open = bool(about.st_mode & 0o022)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not is_open


def remove(path: Path, within: Folders) -> None:
    """Remove a file, a link or an empty folder below `within`, if it is there."""
    # Not what a link leads to.
    real = confine(path.parent, within) / path.name
    with contextlib.suppress(FileNotFoundError):
        if real.is_dir() and not real.is_symlink():
            real.rmdir()
        else:
            real.unlink()


def remove_folder(folder: Path, within: Folders) -> None:
    """Remove a folder below `within` with all that is in it; links in it are not followed."""
    import shutil

    real = confine(folder.parent, within) / folder.name
    if real.is_symlink():
        real.unlink()
    elif real.exists():
        shutil.rmtree(real)


@contextlib.contextmanager
def scratch(beside: Path | None = None, prefix: str = "patchgen-") -> Iterator[Path]:
    """A folder that is removed at the end: in `beside`, else where the system has such."""
    # Slow to load, and most runs find nothing to write.
    import tempfile

    with tempfile.TemporaryDirectory(
        dir=beside, prefix=prefix, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder).resolve()


@functools.cache
def process_folder() -> Path:
    """A folder of this process alone, which is removed when it ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="patchgen-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder).resolve()


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to be filled, which stands at `folder` afterwards, whole or not at all.

    What is at `folder` before must be empty.
    """
    folder = folder.resolve()  # "." has no name, and a link to a folder is none
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch(folder.parent, f".{folder.name}-") as place:
        new = place / folder.name
        new.mkdir()
        yield new
        if folder.exists():
            folder.rmdir()
        new.rename(folder)


def text_lines(path: Path | str) -> io.TextIOWrapper:
    """The regular file at `path` as UTF-8 text to be read line by line; raises OSError."""
    return io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="")
