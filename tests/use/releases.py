"""Other releases of transformers: the installed one with changed lines, and those that pip fetches."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from patchgen.syntax.locate import make_environment
from tests.toytree import REPOSITORY

# Those that the extra `models` of pyproject.toml allows, by their last patches.
TESTED = ("5.17.0", "5.18.0", "5.19.0", "5.20.2", "5.21.1", "5.22.2", "5.23.0", "5.24.0")


def make_release(folder: Path, **changes: tuple[str, str]) -> Path:
    """A copy of the installed transformers in `folder` that calls itself 5.99.0, as links to its files.

    `changes` are of modeling files, by the name of the model: a text, and what stands in its place.
    """
    installed = make_environment(REPOSITORY).path("transformers").parent
    copy = folder / "transformers"
    _link(installed, copy)
    _link(installed / "models", copy / "models")
    _change(copy / "__init__.py", "__version__ = ", "__version__ = '5.99.0'  # ")
    for model, (old, new) in changes.items():
        _link(installed / "models" / model, copy / "models" / model)
        _change(copy / f"models/{model}/modeling_{model}.py", old, new)
    return folder


def _link(folder: Path, copy: Path) -> None:
    """Put a folder of links in the place of `copy`, which may be a link to the whole folder."""
    copy.unlink(missing_ok=True)
    copy.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name != "__pycache__":
            (copy / path.name).symlink_to(path)


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.unlink()
    path.write_text(text.replace(old, new), encoding="utf-8")


def fetch_release(release: str, folder: Path) -> Path:
    """`folder` with that release, and with what it requires in other versions than are installed.

    Skips the test where pip finds none.
    """
    if metadata.version("transformers") != release:
        _install(folder, "--no-deps", f"transformers=={release}")
        (made,) = metadata.distributions(name="transformers", path=[str(folder)])
        required = [Requirement(text) for text in made.requires or () if "extra ==" not in text]
        others = [str(each) for each in required if not _is_installed(each)]
        if others:
            _install(folder, *others)
    return folder


def _is_installed(requirement: Requirement) -> bool:
    found = next(metadata.distributions(name=canonicalize_name(requirement.name)), None)
    return found is not None and requirement.specifier.contains(found.version, prereleases=True)


def _install(folder: Path, *what: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", folder]
    if subprocess.run([*command, *what], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip(f"{' '.join(what)} cannot be fetched here")
