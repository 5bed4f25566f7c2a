"""The releases of transformers that commands look at."""

from __future__ import annotations

from pathlib import Path

from patchgen.author.adopt.releases import Release, releases_in
from patchgen.project.files import Project
from patchgen.project.places import user_folder


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
