"""A small project in a folder of its own, and a stand-in for the core that gives it outputs."""

from __future__ import annotations

import pytest

from tests import standin
from tests.toytree import Tree


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Tree:
    """A project that is not yet converted; it is the current folder."""
    tree = standin.standin_project(tmp_path / "proj")
    monkeypatch.chdir(tree.top)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tree


@pytest.fixture
def cli(monkeypatch, capsys):
    """Runs a command line in this process: exit code, stdout, stderr."""
    from patchgen.cli import main

    standin.install(monkeypatch)

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(argv)
        out, err = capsys.readouterr()
        return code, out, err

    return run
