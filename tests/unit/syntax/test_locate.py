"""Locating modules: files and folders only, and a hint for a misspelt name."""

from __future__ import annotations

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


def test_a_file_has_the_name_that_imports_it(environment: Environment) -> None:
    assert environment.module_of(environment.home / "own/inner/model.py") == "own.inner.model"
    assert environment.module_of(environment.home / "own/inner/__init__.py") == "own.inner"


def test_a_misspelt_module_gets_a_hint(environment: Environment) -> None:
    with pytest.raises(PatchgenError) as caught:
        environment.index("own.inner.modle", Location("modular_x.py", 1, 1))
    problem = caught.value.problem
    assert (problem.code, problem.at.path) == ("PG101", "modular_x.py")
    assert problem.hint == "own.inner has no modle; did you mean model?"


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
