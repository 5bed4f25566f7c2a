"""`patchgen init`: a folder becomes a project, and nothing that was there is changed."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import Distribution

import pytest
import yaml

from patchgen.cli import main
from patchgen.cli.commands.init import _patchgen_requirement
from tests import standin
from tests.toytree import Tree

MADE = [
    ".gitattributes",
    ".github/workflows/patchgen.yml",
    ".pre-commit-config.yaml",
    "generated/.gitattributes",
    "modular/README.md",
    "pyproject.toml",
]
TABLE = {"sources": ["modular"], "outputs": {"modular": "generated"}}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    standin.install(monkeypatch)
    tree = Tree(tmp_path / "mine")
    tree.top.mkdir()
    monkeypatch.chdir(tree.top)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tree


def table_of(tree):
    return tomllib.loads(tree.read("pyproject.toml"))["tool"]["patchgen"]


def test_an_empty_folder_becomes_a_project(tree, capsys):
    assert main(["init"]) == 0
    assert tree.files() == MADE
    assert table_of(tree) == TABLE
    out = capsys.readouterr().out
    assert "\nnext:\n  " in out
    assert main(["check"]) == 1
    assert "modular: PG505 holds no modular file" in capsys.readouterr().out


def test_again_it_changes_nothing(tree, capsys):
    main(["init"])
    before = tree.snapshot()
    capsys.readouterr()
    assert main(["init"]) == 0
    assert tree.snapshot() == before
    assert "wrote" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "old",
    [
        b'[project]\nname = "x"  # mine\n',
        b'[project]\nname = "x"',
        b'[project]\r\nname = "x"\r\n',
        b"[tool.ruff]\nline-length = 90\n\n\n",
        b"[[tool.mypy.overrides]]\nmodule = 'a'\n",
        b"# \xc3\xbc\n",
        b"",
    ],
)
def test_the_lines_of_a_pyproject_stay(old, tree):
    tree("pyproject.toml").write_bytes(old)
    assert main(["init"]) == 0
    new = tree("pyproject.toml").read_bytes()
    assert new.startswith(old)
    assert table_of(tree) == TABLE
    assert new.count(b"\r\n") in (0, new.count(b"\n"))


@pytest.mark.parametrize("old", ["tool = { ruff = {} }\n", "[tool\n"])
def test_what_cannot_be_extended_stays_and_nothing_is_written(old, tree, capsys):
    tree.write("pyproject.toml", old)
    assert main(["init"]) == 2
    assert tree.contents() == {"pyproject.toml": old.encode()}
    assert "pyproject.toml" in capsys.readouterr().err


def test_a_table_that_is_there_decides_on_the_folders(tree):
    table = '[tool.patchgen]\nsources = ["src/thin"]\noutputs = { "src/thin" = "src/flat" }\n'
    tree.write("pyproject.toml", table)
    assert main(["init"]) == 0
    assert tree.read("pyproject.toml") == table
    assert {"src/thin/README.md", "src/flat/.gitattributes"} < {*tree.files()}


@pytest.mark.parametrize("name", MADE[:-1])
def test_a_file_that_is_there_stays(name, tree, capsys):
    tree.write(name, "repos: []\n")
    assert main(["init"]) == 0
    assert tree.read(name) == "repos: []\n"
    assert f"kept {name}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (".pre-commit-config.yaml", "id: patchgen-check"),
        (".gitattributes", "patchgen.lock merge=union"),
        (".gitattributes", "patchgen.overrides.toml merge=union"),
    ],
)
def test_what_is_there_is_not_asked_for(name, line, tree, capsys):
    tree.write(name, "repos: []\n")
    main(["init"])
    assert line in capsys.readouterr().out
    tree.write(name, "repos: [] # patchgen is elsewhere\n")
    main(["init"])
    assert line not in capsys.readouterr().out


def test_pre_commit_needs_no_environment_where_patchgen_can_be_installed(tree, monkeypatch):
    place = "git+https://x.org/p.git@ab12"
    monkeypatch.setattr("patchgen.cli.commands.init.origin", lambda: place)
    monkeypatch.setattr("patchgen.cli.commands.init.release_of", lambda *_: "5.23.0")
    main(["init"])
    (repo,) = yaml.safe_load(tree.read(".pre-commit-config.yaml"))["repos"]
    (hook,) = repo["hooks"]
    assert (hook["language"], hook["entry"]) == ("python", "patchgen check")
    assert hook["additional_dependencies"] == [place, "transformers==5.23.0"]
    assert re.search(hook["files"], "modular/llama/modular_llama_x.py")
    assert not re.search(hook["files"], "README.md")


def test_a_workflow_that_pins_no_release_is_not_written(tree, monkeypatch, capsys):
    monkeypatch.setattr("patchgen.cli.commands.init.release_of", lambda *_: "")
    assert main(["init"]) == 0
    assert not tree(".github").exists()
    said = capsys.readouterr().out
    assert (
        "pip install --no-deps transformers" in said and "patchgen init  # writes .github" in said
    )
    monkeypatch.undo()
    monkeypatch.chdir(tree.top)
    monkeypatch.setattr("patchgen.cli.commands.init.release_of", lambda *_: "5.23.0")
    assert main(["init"]) == 0
    assert "transformers==5.23.0" in tree.read(".github/workflows/patchgen.yml")


def test_inside_another_project_is_wrong_usage(tree, capsys):
    main(["init"])
    before = tree.contents()
    assert main(["init", "modular/inner"]) == 2
    assert tree.contents() == before
    assert "lies in a project" in capsys.readouterr().err


def test_a_folder_without_a_project_is_pointed_to_init(tree, capsys):
    for command in ("check", "convert", "lint"):
        assert main([command]) == 1
        assert "`patchgen init`" in capsys.readouterr().out


def test_the_workflow_and_the_hook_are_whole(tree):
    main(["init"])
    workflow = yaml.safe_load(tree.read(".github/workflows/patchgen.yml"))
    steps = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert [step.split()[0] for step in steps] == ["pip", "pip", "patchgen"]
    assert "--warnings-as-errors" in steps[-1]
    assert "$" not in "".join(steps).replace('${BASE:+--base "$BASE"}', "")
    (repo,) = yaml.safe_load(tree.read(".pre-commit-config.yaml"))["repos"]
    assert repo["hooks"][0]["entry"] == "patchgen check"


@pytest.mark.parametrize(
    ("record", "requirement"),
    [
        (None, "path/to/patchgen"),
        ({"url": "file:///home/me/patchgen", "dir_info": {"editable": True}}, "path/to/patchgen"),
        (
            {"url": "https://x.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            "git+https://x.org/p.git@ab12",
        ),
    ],
)
def test_the_workflow_installs_what_is_installed_here(record, requirement, monkeypatch):
    class Installed(Distribution):
        def read_text(self, filename):
            return None if record is None else json.dumps(record)

        def locate_file(self, path):
            raise NotImplementedError

    monkeypatch.setattr("patchgen.project.origin.distribution", lambda name: Installed())
    assert _patchgen_requirement().startswith(requirement)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    assert f"_PATCHGEN_COMPLETE={shell}_complete" in capsys.readouterr().out
