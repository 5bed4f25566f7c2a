"""What `patchgen rebase` cannot use is a clear error, and nothing is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchgen.cli import main
from tests.toytree import Tree, environment
from tests.unit.rebase.test_planted import HEAD, PARENT, changed, release

PATH = "modular/a/modular_a.py"
ROOTS = ("--from-root", "../old", "--to-root", "../new")
CALL = "self.attention(x, positions, mask=mask, cache=cache)"
EDIT = f"""class ToyLayer(toy.ToyLayer):
    @edit("forward")
    def tell(self, x, positions, mask, cache):
        with old:
            {CALL}
        with new:
            {CALL[:-1]}, layer=self)
"""

OVERRIDE = """class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return x
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A project that was converted on `old`, and next releases; it is the current folder."""
    release(tmp_path / "old", PARENT)
    release(tmp_path / "new", changed([[CALL, f"{CALL[:-1]}, dropout=0.0)"]]))
    release(tmp_path / "other", changed([[CALL, "self.attention(x, positions)"]]))
    tree = Tree(tmp_path / "proj")
    tree.write("pyproject.toml", '[tool.patchgen]\nsources = ["modular"]\n')
    tree.write(PATH, HEAD + EDIT)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "--quiet", "--package-root", "../old"]) == 0
    return tree


def refused(tree: Tree, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What is said of a run that has to fail and to write nothing."""
    before = tree.snapshot()
    capsys.readouterr()
    assert main(["rebase", "--write", *options]) == 1
    assert tree.snapshot() == before
    return capsys.readouterr().err


def test_another_old_parent(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(tree, capsys, "--from-root", "../other", "--to-root", "../new")
    assert f"{PATH}: PG809 was not made from transformers other: " in said
    assert "patchgen.lock records other texts of 1 definition of transformers.models." in said


@pytest.mark.parametrize("number", ["9.9.9", "5.10..5.12", "..", "modular"])
def test_a_release_that_is_not_there(
    number: str, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (("--from", number), ("--from-root", "../old", "--to", number)):
        assert f"{number}: PG807 " in refused(tree, capsys, *options)


def test_half_a_wheel(tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = tmp_path / "transformers-9.9.9-py3-none-any.whl"
    wheel.write_bytes(b"PK\x03\x04")
    said = refused(tree, capsys, "--from-root", "../old", "--to", str(wheel))
    assert f"{wheel}: PG807 is no wheel that can be read" in said


def test_a_file_that_does_not_convert_on_its_own_release(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.write(PATH, HEAD + EDIT.replace("positions, mask=mask", "nothing, mask=mask", 1))
    said = refused(tree, capsys, *ROOTS)
    assert f"{PATH}: PG809 does not convert on transformers old" in said
    assert "name the release that it was written for" in said
    assert f"{PATH}:14:31: PG402 the name nothing" in said


def test_a_file_that_is_rebased_already(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebase", *ROOTS, "--write"]) == 0
    assert "it converts on transformers new" in refused(tree, capsys, *ROOTS)


@pytest.mark.slow
def test_a_kill_leaves_each_file_as_it_was_or_rebased(tree: Tree) -> None:
    for name in "bcdef":
        tree.write(f"modular/{name}/modular_{name}.py", HEAD + EDIT + "\n\n" + OVERRIDE)
    names = sorted(path.as_posix() for path in Path("modular").rglob("modular_*.py"))
    before = {name: tree.read(name) for name in names}
    command = [sys.executable, "-m", "patchgen", "rebase", *ROOTS, "--write"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(), **quiet) as process:
        while process.poll() is None and tree.read(names[0]) == before[names[0]]:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    after = {name: tree.read(name) for name in names}
    rebased = {name for name in names if after[name] != before[name]}
    assert rebased and all("dropout=0.0, layer=self" in after[name] for name in rebased)
    main(["rebase", *ROOTS, "--write"])
    assert all("dropout=0.0, layer=self" in tree.read(name) for name in names)
