"""The action installs patchgen in a workspace that strangers wrote, and runs nothing of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toytree import toy_project

REPOSITORY = Path(__file__).parents[2]
STEPS = (REPOSITORY / "action.yml").read_text(encoding="utf-8")
# What Python would import first from the current folder, each with a mark that it was run.
HOSTILE = (
    "venv.py",
    "pip/__init__.py",
    "pip.py",
    "types.py",
    "logging.py",
    "multiprocessing/__init__.py",
    "libcst.py",
    "ruff.py",
    "sitecustomize.py",
    "click.py",
    "patchgen/__init__.py",
    "patchgen/__main__.py",
)


def read_step(name):
    """The script of a step of action.yml."""
    step = STEPS.split(f"name: {name}\n")[1].split("    - name:")[0]
    body = step.split("run: |\n")[1]
    return re.sub(r"^ {8}", "", body, flags=re.MULTILINE)


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    for name in HOSTILE:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n", encoding="utf-8")
    return folder


@pytest.fixture
def environment(tmp_path, workspace):
    temp = tmp_path / "temp"
    temp.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "PYTHON": sys.executable,
        "RUNNER_TEMP": str(temp),
        "GITHUB_ACTION_PATH": str(REPOSITORY),
        "GITHUB_OUTPUT": str(temp / "outputs"),
        "PIP_NO_INDEX": "1",  # what is installed does not matter here
        "TRANSFORMERS": "5.23.0",
        "UPGRADE": "false",
        "PATHS": "",
        "BASE": "",
    }


def run(script, workspace, environment):
    command = ["bash", "-e", "-c", script]
    return subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )


def write_launcher(environment):
    """The Python of the action's own environment: the one that runs this test."""
    bin_folder = Path(environment["RUNNER_TEMP"], "patchgen", "bin")
    bin_folder.mkdir(parents=True)
    launcher = bin_folder / "python"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)


@pytest.mark.slow  # it makes an environment with pip
def test_installing_runs_nothing_of_the_workspace(tmp_path, workspace, environment):
    done = run(read_step("Install patchgen"), workspace, environment)
    # The packages are not to be had without an index, and that is what stops it.
    assert "pip" in done.stderr or done.returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_check_is_green_or_red_for_what_the_project_says(tmp_path, workspace, environment):
    write_launcher(environment)
    tree = toy_project(workspace, variants=10)  # so many are shared among processes
    script = ["-m", "patchgen", "convert", "-q"]
    subprocess.run([sys.executable, "-I", *script], cwd=tree.top, check=True)
    done = run(read_step("Check"), workspace, environment)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    tree.write("generated/v1/modeling_v1.py", tree.read("generated/v1/modeling_v1.py") + "x = 1\n")
    done = run(read_step("Check"), workspace, environment)
    assert done.returncode == 1
    assert "PG501" in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["Check", "Upgrade"])
def test_a_step_runs_the_installed_patchgen(name, tmp_path, workspace, environment):
    """The environment that runs this test stands for the one of the action."""
    write_launcher(environment)
    (workspace / "pyproject.toml").write_text(
        "[tool.patchgen]\nsources = ['modular']\n", encoding="utf-8"
    )
    done = run(read_step(name), workspace, environment)
    assert not (tmp_path / "ran").exists()
    # Nothing is there to be checked, and no repository to make a branch in.
    wanted = (1, "PG506") if name == "Check" else (2, "git")
    assert done.returncode == wanted[0]
    assert wanted[1] in done.stdout + done.stderr


@pytest.fixture
def request_of_a_stranger(tmp_path, environment):
    """A shallow clone of a pull request that leaves its stale output out of the sources."""
    tree = toy_project(tmp_path / "origin")
    tree.edit("pyproject.toml", 'roots = ["lib"]\n', 'roots = ["lib"]\nformatter = "ruff"\n')

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        command = ["git", *identity, *words]
        done = subprocess.run(command, cwd=tree.top, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    subprocess.run([sys.executable, "-m", "patchgen", "convert", "-q"], cwd=tree.top, check=True)
    git("init", "-q", "-b", "main")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", "-A")
    git("commit", "-qm", "base")
    base = git("rev-parse", "HEAD")
    tree.edit("generated/v1/modeling_v1.py", "return 1", "return 7")
    tree.edit("pyproject.toml", "roots", 'exclude = ["modular/v1"]\nroots')
    git("commit", "-qam", "request")
    clone = tmp_path / "clone"
    command = ["git", "clone", "-q", "--depth=1", f"file://{tree.top}", str(clone)]
    subprocess.run(command, check=True)
    return clone, {**environment, "BASE": base, "PATCHGEN_CACHE_DIR": str(tmp_path / "cache")}


def test_a_pull_request_is_checked_by_the_configuration_of_its_base(request_of_a_stranger):
    clone, environment = request_of_a_stranger
    write_launcher(environment)
    done = run(read_step("Check"), clone, environment)
    assert done.returncode == 1, done.stderr
    assert "::error title=patchgen (PG501),file=generated/v1/modeling_v1.py" in done.stdout
    assert "::warning title=patchgen (PG515),file=pyproject.toml::" in done.stdout


def test_a_base_that_cannot_be_fetched(request_of_a_stranger):
    clone, environment = request_of_a_stranger
    write_launcher(environment)
    done = run(read_step("Check"), clone, {**environment, "BASE": "1" * 40})
    assert done.returncode == 1
    assert "PG516" in done.stderr


@pytest.mark.parametrize(
    "path",
    [
        *(REPOSITORY / ".github/workflows").glob("*.yml"),
        REPOSITORY / "patchgen/cli/starter/workflow.yml",
    ],
    ids=lambda path: path.name,
)
def test_actions_are_pinned_by_commit(path):
    text = path.read_text(encoding="utf-8")
    for action in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_tools_of_the_release_are_pinned_by_version():
    text = (REPOSITORY / ".github/workflows/release.yml").read_text(encoding="utf-8")
    tools = [word for line in re.findall(r"pip install (.*)", text) for word in line.split()]
    assert tools
    assert all("==" in tool for tool in tools), tools
