"""The places of patchgen's own files: the cache, the locks of runs, records of other trees.

They lie in the user's cache folder (or `PATCHGEN_CACHE_DIR`), under a name made from the path of
the project or tree.  None lies in the project: what came with a checkout would be believed.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import stat
import sys
from pathlib import Path

from patchgen.project.files import Project, is_below

LOCK = "patchgen.lock"  # checked in: what each output was made from


def root_of(project: Project, path: Path) -> Path:
    """The innermost folder for writing that holds `path`, else the folder of `path` itself."""
    holders = [root for root in project.writable if is_below(path, root)]
    return max(holders, key=lambda root: len(root.parts), default=path.parent)


def state_of(project: Project, root: Path) -> Path:
    """The folder for what is known of `root`; it need not exist."""
    # A folder inside the project needs no place of its own.
    if root == project.out != project.package_root and root.is_relative_to(project.home):
        root = project.home
    name = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return user_folder() / f"{root.name}-{name}"


def lock_of(project: Project, root: Path) -> Path:
    """The file of the records below `root`; the project's own is checked in."""
    folder = root if is_own(project, root) else state_of(project, root)
    return folder / LOCK


def is_own(project: Project, root: Path) -> bool:
    """Whether `root` is the project, and not another tree that the command was started in."""
    return root == project.home and root != project.package_root


def user_folder() -> Path:
    """The user's folder for files that belong to no project."""
    return _make_folder(os.environ.get("PATCHGEN_CACHE_DIR") or _cache_of_user())


def private_folder(name: str) -> Path:
    """A folder in the user's for what is run: only the user may write there.

    Raises OSError where it cannot be made, and where others may write.
    """
    folder = user_folder() / name
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    is_private = stat.S_ISDIR(about.st_mode) and not about.st_mode & 0o022
    if hasattr(os, "getuid") and not (is_private and about.st_uid == os.getuid()):
        raise PermissionError(errno.EACCES, "others may write there", str(folder))
    return folder


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
    return folder.resolve()


def _cache_of_user() -> str:
    # What platformdirs says there, which takes a tenth of a check of unchanged files to load.
    if sys.platform == "linux":
        chosen = os.environ.get("XDG_CACHE_HOME", "")
        base = chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache")
        return os.path.join(base, "patchgen")
    import platformdirs

    return platformdirs.user_cache_dir("patchgen")
