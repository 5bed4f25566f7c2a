"""The releases of transformers that commands look at."""

from __future__ import annotations

from pathlib import Path

from patchgen.author.adopt.releases import Release, chosen, releases_in
from patchgen.project.files import Project
from patchgen.project.places import user_folder
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import INSTALL_TRANSFORMERS


def cache_folder() -> Path:
    """Where pip's downloads are kept."""
    return user_folder() / "releases"


def kept_releases() -> tuple[Release, ...]:
    """The releases that were downloaded before."""
    cache = cache_folder()
    return tuple(releases_in(cache, cache)) if cache.is_dir() else ()


def installed_releases(project: Project) -> tuple[Release, ...]:
    """The release that is installed, if there is one."""
    path = project.environment().path("transformers")
    return tuple(releases_in(path.parent.parent, path.parent)) if path is not None else ()


def named_release(project: Project, name: str | None, download: bool) -> Release:
    """The release in a folder or a wheel, the one with a number, or the installed one.

    Raises PatchgenError PG807 where that is not one release.
    """
    installed = installed_releases(project)
    at = Location(name or "transformers")
    if name is None and installed:
        return installed[0]
    if name is None:
        what = "no release is installed, and none is named"
        hint = f"name a folder or a number, or {INSTALL_TRANSFORMERS}"
    elif Path(name).exists():
        releases = releases_in(Path(name), cache_folder())
        if len(releases) == 1:
            return releases[0]
        what = f"holds {len(releases) or 'no'} releases of transformers, not one"
        hint = "name the folder of one release"
    elif ".." in name:
        what = "is not one release"
        hint = "name one number"
    else:
        releases = (*kept_releases(), *installed)
        return chosen((name,), releases, cache_folder(), download=download)[0]
    raise PatchgenError("PG807", at, what, hint)
