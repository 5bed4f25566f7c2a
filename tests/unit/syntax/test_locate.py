"""Locating modules: files and folders only, and a hint for a misspelt name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment, display_module, is_beside, make_environment


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    package = tmp_path / "own" / "inner"
    package.mkdir(parents=True)
    for path in (tmp_path / "own/__init__.py", package / "__init__.py", package / "model.py"):
        path.write_text("x = 1\n")
    (tmp_path / "single.py").write_text("raise SystemExit\n")
    return make_environment(tmp_path, search=[])


def test_modules_are_found_and_not_imported(environment: Environment) -> None:
    assert environment.path("own.inner") == environment.home / "own/inner/__init__.py"
    assert environment.path("single") == environment.home / "single.py"
    assert environment.is_package("own.inner") and not environment.is_package("own.inner.model")


@pytest.mark.parametrize("module", ["", "own.none", "own..inner", "own/inner", ".."])
def test_other_names_are_no_modules(environment: Environment, module: str) -> None:
    assert environment.path(module) is None


@pytest.mark.parametrize("is_regular", [True, False])
def test_the_first_package_has_all_modules_of_its_name(
    environment: Environment, tmp_path: Path, is_regular: bool
) -> None:
    release = tmp_path / "release"
    (release / "own").mkdir(parents=True)
    if is_regular:
        (release / "own/__init__.py").touch()
    found = make_environment(environment.home, release, search=[])
    # A folder without __init__.py is a part of a package, as in Python.
    assert (found.path("own.inner.model") is None) is is_regular
    assert found.path("single") == environment.home / "single.py"


def test_a_file_has_the_name_that_imports_it(environment: Environment) -> None:
    assert environment.module_of(environment.home / "own/inner/model.py") == "own.inner.model"
    assert environment.module_of(environment.home / "own/inner/__init__.py") == "own.inner"


def test_a_misspelt_module_gets_a_hint(environment: Environment) -> None:
    with pytest.raises(PatchgenError) as caught:
        environment.index("own.inner.modle", Location("modular_x.py", 1, 1))
    problem = caught.value.problem
    assert (problem.code, problem.at.path) == ("PG101", "modular_x.py")
    assert problem.hint == "own.inner has no modle; did you mean model?"


def test_what_is_no_file_is_not_called_missing(environment: Environment) -> None:
    os.mkfifo(environment.home / "own/inner/pipe.py")
    with pytest.raises(PatchgenError) as caught:
        environment.index("own.inner.pipe", Location("modular_x.py", 1, 1))
    hint = "what own.inner has of the name pipe is no file that can be read"
    assert caught.value.problem.hint == hint


def test_neighbours_of_a_top_level_file(environment: Environment) -> None:
    beside = environment.beside("single")
    assert beside is not None and is_beside(beside)
    assert environment.path(f"{beside}.own") == environment.path("own")
    assert display_module(f"{beside}.own") == ".own"
    assert environment.beside("own.inner") is None


@pytest.mark.parametrize(
    ("text", "may"),
    [("act = 1\n", "may"), ("act = 1\n\n__all__ = ['b']\n", ""), ("\n__all__ = ['act']\n", "may")],
)
def test_which_names_a_star_import_may_bring(text, may, tmp_path):
    package = tmp_path / "toy"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from .inner.names import *\n")
    (package / "inner" / "names.py").write_text(text)
    assert make_environment(tmp_path).look("star", "act toy") == may
