"""The places of patchgen's own files: the cache, the locks of runs, records of other trees.

They lie in the user's cache folder (or `PATCHGEN_CACHE_DIR`), under a name made from the path of
the project or tree.  None lies in the project: what came with a checkout would be believed.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import sys
from pathlib import Path

from patchgen import disk
from patchgen.project.files import Project, is_below
from patchgen.syntax.shown import shown

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
    """The user's folder for files that belong to no project; nobody else may write there.

    What is in it is believed, and releases of transformers in it are run.
    """
    return _private_folder(os.environ.get("PATCHGEN_CACHE_DIR") or _cache_of_user())


def private_folder(name: str) -> Path:
    """A folder in the user's.  Raises OSError where it cannot be made, or others may write."""
    folder = user_folder() / name
    if not disk.make_private(folder):
        raise PermissionError(errno.EACCES, "others may write there", str(folder))
    return folder


@functools.cache
def _private_folder(wanted: str) -> Path:
    """The folder at `wanted`, or another one where that cannot be made or others may write."""
    folder = Path(wanted).resolve()
    try:
        if disk.make_private(folder):
            return folder
        what = "others may write there, or it is another user's"
        warning = f"patchgen: {folder} is not used, as {what}: empty it, and chmod 700"
        print(shown(warning), file=sys.stderr)
    except OSError:
        pass  # no home, for example
    import tempfile  # loads more than all else that a check of unchanged files does

    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir(), f"patchgen-{user}")
    if not disk.make_private(folder):
        what = "belongs to another user, or others may write there"
        raise PermissionError(errno.EACCES, what, str(folder))
    return folder.resolve()


def _cache_of_user() -> str:
    # What platformdirs says there, which takes a tenth of a check of unchanged files to load.
    if sys.platform == "linux":
        chosen = os.environ.get("XDG_CACHE_HOME", "")
        base = chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache")
        return os.path.join(base, "patchgen")
    import platformdirs

    return platformdirs.user_cache_dir("patchgen")
