"""The places of patchgen's own files: caches, locks, records of other trees.

Those of the project lie in `.patchgen_cache/` at its top.  Nothing is put into another tree: its
files lie in the user's cache folder (or `PATCHGEN_CACHE_DIR`), under a name made from the tree's
path.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from pathlib import Path

from patchgen.project.files import Project, is_below
from patchgen.syntax.errors import Location, PatchgenError

CACHE = ".patchgen_cache"
LOCK = "patchgen.lock"  # checked in: what each output was made from
OUTCOMES = "outcomes"  # inside it: one file per modular file
ANSWERS = "answers"  # likewise
MARK = "writing"  # there while a run moves files, so that no reader takes them for stale
_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# This folder holds a cache of patchgen; it can be deleted at any time.  \
See https://bford.info/cachedir/
"""


def root_of(project: Project, path: Path) -> Path:
    """The innermost folder for writing that holds `path`.

    Where there is none, the folder of `path` itself.
    """
    holders = [root for root in project.writable if is_below(path, root)]
    return max(holders, key=lambda root: len(root.parts), default=path.parent)


def state_of(project: Project, root: Path) -> Path:
    """The folder for the lock of runs that write below `root`.

    It need not exist.
    """
    is_out = root == project.out and root != project.package_root
    # A folder inside the project needs no place of its own.
    if is_own(project, root) or (is_out and root.is_relative_to(project.home)):
        return project.home / CACHE
    return _place_of(root, user_folder())


def lock_of(project: Project, root: Path) -> Path:
    """The file of the records below `root`; the project's own is checked in."""
    folder = root if is_own(project, root) else state_of(project, root)
    return folder / LOCK


def is_own(project: Project, root: Path) -> bool:
    """Whether `root` is the project, and not another tree that the command was started in."""
    return root == project.home and root != project.package_root


def cache_of(project: Project, root: Path) -> Path:
    """The folder for the cache of modular files below `root`; it need not exist."""
    return state_of(project, root) / OUTCOMES


def answers_of(project: Project, root: Path) -> Path:
    """The folder for what is kept of texts (`batch.answers`); it need not exist."""
    return state_of(project, root) / ANSWERS


def make_state(folder: Path) -> Path:
    """Make `folder`, marked as a cache so that backups and git leave it out.

    Raises OSError where it cannot be made, and PatchgenError PG904 for a link, which may lead
    anywhere.
    """
    if folder.is_symlink():
        raise PatchgenError(
            "PG904", Location(folder.name), "is a symbolic link", "delete it: it is made anew"
        )
    if not (folder / ".gitignore").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
            # What stands there already may be a link that leads out, or a pipe, which is waited
            # for.
            with (
                contextlib.suppress(FileExistsError),
                (folder / name).open("x", encoding="utf-8") as file,
            ):
                file.write(text)
    return folder


@functools.cache
def _place_of(root: Path, folder: Path) -> Path:
    name = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return folder / f"{root.name}-{name}"


def user_folder() -> Path:
    """The user's folder for files that belong to no project."""
    return _make_folder(os.environ.get("PATCHGEN_CACHE_DIR") or _cache_of_user())


@functools.cache
def _make_folder(wanted: str) -> Path:
    """The folder at `wanted`, or one for this user alone where that cannot be made."""
    folder = Path(wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        import tempfile  # loads more than all else that a check of unchanged files does

        # No home: a folder that is this user's alone, since others may write to the place for
        # temporary files.
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir(), f"patchgen-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
            raise PermissionError(13, "belongs to another user", str(folder)) from None
    return folder


def _cache_of_user() -> str:
    import platformdirs  # not needed for a project's own files

    return platformdirs.user_cache_dir("patchgen")
