"""Nothing is waited for that never comes: where a file belongs, a pipe, a socket or a device is refused at once."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from patchgen.cli import main
from tests.toytree import toy_project

pytestmark = pytest.mark.timeout(60)

KINDS = ["pipe", "socket", "device", "folder", "broken link"]
OUTPUT, DIFF = "generated/v1/modeling_v1.py", "generated/v1/modeling_v1.diff"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path / "proj", variants=1)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    return tree


@pytest.fixture
def ends(capsys):
    """Runs what must end by itself, without a defect; its exit code, and what it says."""

    def run(*argv):
        code = main(argv)
        done = capsys.readouterr()
        output = done.out + done.err
        assert "internal error" not in output and "Traceback" not in output, output
        return code, output

    return run


def put(tree, kind, name):
    """Put what is no file in the place of the file `name`."""
    path = tree(name)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        # The name of a socket may have no more than some hundred letters.
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(path.name)
        finally:
            os.chdir(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    return path


@pytest.mark.parametrize("command", ["check", "diff", "list", "convert", "lint"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", [OUTPUT, DIFF])
def test_an_output_that_is_no_file(name, kind, command, tree, ends):
    put(tree, kind, name)
    code, output = ends(command)
    if command not in ("lint", "list"):
        assert code in (1, 2)
        assert f"{name}: PG" in output


def test_what_is_no_file_is_never_replaced(tree, ends):
    path = put(tree, "pipe", OUTPUT)
    code, output = ends("convert", "--force")
    assert code == 1
    assert path.is_fifo()
    assert (
        f"{OUTPUT}: PG509 is no regular file, and modular/v1/modular_v1.py gives a file of this name"
        in output
    )


@pytest.mark.parametrize("command", ["check", "convert", "list", "lint"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    ["patchgen.lock", "patchgen.overrides.toml", "pyproject.toml", "lib/toy/modeling_toy.py"],
)
def test_what_is_read_and_is_no_file(name, kind, command, tree, ends):
    put(tree, kind, name)
    ends(command)


def test_a_remembered_outcome_that_is_no_file(tree, ends):
    for path in (tree.state / "outcomes").iterdir():
        put(tree, "pipe", os.path.relpath(path, tree.top))
    assert ends("check") == (0, "1 output: 1 ok\n")
