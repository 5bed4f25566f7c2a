"""What is said to somebody who errs: each message says what to do next, and none says what is not so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen.cli import main
from tests.toytree import REPOSITORY, environment, toy_project


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path / "project")
    monkeypatch.chdir(tree.top)
    return tree


@pytest.mark.parametrize(
    ("argv", "next_step"),
    [
        (["chekc"], "there is no command 'chekc'; did you mean check?"),
        (["xyzzy"], "patchgen --help lists the commands"),
        (["new"], "patchgen new MODEL lists the parts that fit it"),
        (["new", "--from-gallery", "albert_chekpoint"], "did you mean albert_checkpoint"),
        (["verify"], "records no variant hint: run patchgen convert"),
    ],
    ids=" ".join,
)
def test_wrong_usage_names_what_was_meant(argv, next_step, tree, capsys):
    if argv == ["verify"]:
        pytest.importorskip("torch")
    assert main(argv) == 2
    assert next_step in " ".join(capsys.readouterr().err.split())


def test_a_list_of_nothing_has_no_table(tree, capsys):
    assert main(["list", "nope"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("nope: PG916 is no variant and no path")


@pytest.mark.parametrize("command", ["list", "check", "convert"])
def test_an_empty_project_is_told_how_to_begin(command, tree, capsys):
    shutil.rmtree(tree("modular"))
    tree("modular").mkdir()
    assert main([command]) == 1
    printed = capsys.readouterr()
    assert "`patchgen new llama --with loss` writes one" in printed.out + printed.err


def test_a_name_of_the_parent_is_named_with_its_module(tree, capsys):
    tree.write(
        "modular/v1/modular_v1.py",
        "from toy import modeling_toy as toy\n\n\nclass A(toy.A):\n    def f(self):\n        return helper(2)\n",
    )
    assert main(["convert"]) == 1
    assert "hint: write toy.helper" in capsys.readouterr().out


def test_a_parent_that_is_not_installed_is_one_problem(tree, capsys):
    """Not also an override whose parent is gone, which `--accept` would drop."""
    assert main(["convert"]) == 0
    shutil.rmtree(tree("lib/toy"))
    capsys.readouterr()
    assert main(["check"]) == 1
    printed = capsys.readouterr().out
    assert "PG101" in printed and "PG510" not in printed and "--accept" not in printed


def test_without_transformers_new_says_how_to_get_it(tree, tmp_path):
    """In a process whose paths have what patchgen requires, and no transformers."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for folder in map(Path, sys.path):
        for path in folder.iterdir() if folder.name == "site-packages" else ():
            link = packages / path.name
            if (
                not path.name.startswith("transformers")
                and path.suffix != ".pth"
                and not link.exists()
            ):
                link.symlink_to(path)
    argv = [sys.executable, "-S", "-m", "patchgen", "new", "albert"]
    env = environment(PYTHONPATH=f"{REPOSITORY}{os.pathsep}{packages}")
    done = subprocess.run(argv, cwd=tree.top, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "transformers: PG101 is not installed" in done.stderr
    assert "pip install --no-deps transformers" in done.stderr


@pytest.mark.slow
def test_without_a_network_a_folder_is_asked_for(tree, monkeypatch, capsys):
    from patchgen.author.adopt.releases import _downloaded
    from patchgen.syntax.errors import PatchgenError

    for name, value in {
        "INDEX_URL": "http://127.0.0.1:9/",
        "RETRIES": "0",
        "NO_INDEX": "1",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(PatchgenError) as raised:
        _downloaded("5.21.0", tree("wheels"))
    assert "without a network, name the folder of one" in raised.value.problem.hint
