"""Trees that are not the project's: only outputs are written there; what is known of them lies in the user's cache."""

import os

import pytest

from patchgen.project.config import Config
from patchgen.project.files import Project
from patchgen.project.places import state_of
from tests.toytree import Tree


@pytest.fixture
def foreign(tree, tmp_path):
    """A tree beside the project with one modular file."""
    foreign = Tree(tmp_path / "tree")
    foreign.write("pack/modular_x.py", "from toy import A\nz = 1\n")
    return foreign


@pytest.fixture
def argv(foreign):
    return ["--package-root", str(foreign.top), str(foreign("pack/modular_x.py"))]


def test_stale_with_a_record_says_why(foreign, argv, cli):
    assert cli("convert", *argv)[0] == 0
    foreign.edit("pack/modular_x.py", "z = 1", "z = 2")
    assert (
        "pack/modeling_x.py:6:1: PG501 is stale: the modular file changed" in cli("check", *argv)[1]
    )


def test_stale_without_a_record_says_what_is_known(foreign, argv, cli, tmp_path):
    assert cli("convert", *argv)[0] == 0
    for path in (tmp_path / "user-cache").rglob("patchgen.lock"):
        path.unlink()
    foreign.edit("pack/modeling_x.py", "z = 1", "z = 2")
    reason = "is stale: it differs from what pack/modular_x.py gives now"
    assert f"pack/modeling_x.py:6:1: PG501 {reason}" in cli("check", *argv)[1]


def test_noop_no_record_is_needed(foreign, argv, cli, tmp_path):
    assert cli("convert", *argv)[0] == 0
    for path in (tmp_path / "user-cache").rglob("patchgen.lock"):
        path.unlink()
    assert cli("check", *argv)[0] == 0


def test_nothing_of_the_project_is_touched(tree, foreign, argv, cli):
    before = tree.snapshot()
    cli("convert", *argv)
    assert tree.snapshot() == before


def test_without_a_home_the_place_is_private(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    place = state_of(Project(Config(tmp_path / "proj")), tmp_path / "tree")
    assert place.parent.parent == tmp_path
    assert place.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no user numbers")
def test_a_place_of_somebody_else_is_refused(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / f"patchgen-{os.getuid() + 1}").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    with pytest.raises(PermissionError):
        state_of(Project(Config(tmp_path / "proj")), tmp_path / "tree")


def test_files_of_transformers_itself_are_another_profile(foreign, cli):
    for package in (
        "transformers",
        "transformers/models",
        "transformers/models/a",
        "transformers/models/b",
    ):
        foreign.write(f"{package}/__init__.py", "")
    foreign.write(
        "transformers/models/a/modeling_a.py", "class AModel:\n    def f(self):\n        return 1\n"
    )
    text = "from ..a.modeling_a import AModel\n\n\nclass BModel(AModel):\n    pass\n"
    path = foreign.write("transformers/models/b/modular_b.py", text)
    assert cli("convert", "--package-root", str(foreign.top), str(path))[0] == 0
    output = foreign("transformers/models/b/modeling_b.py").read_text(encoding="utf-8")
    assert "from src/transformers/models/b/modular_b.py" in output
    assert output.endswith("class BModel:\n    def f(self):\n        return 1\n")
