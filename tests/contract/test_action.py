"""The action installs patchgen in a workspace that strangers wrote, and runs nothing of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
STEPS = (REPOSITORY / "action.yml").read_text(encoding="utf-8")
# What Python would import first from the current folder, each with a mark that it was run.
HOSTILE = (
    "venv.py",
    "pip/__init__.py",
    "pip.py",
    "types.py",
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
    }


def run(script, workspace, environment):
    command = ["bash", "-e", "-c", script]
    return subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow  # it makes an environment with pip
def test_installing_runs_nothing_of_the_workspace(tmp_path, workspace, environment):
    done = run(read_step("Install patchgen"), workspace, environment)
    # The packages are not to be had without an index, and that is what stops it.
    assert "pip" in done.stderr or done.returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["Check", "Upgrade"])
def test_a_step_runs_the_installed_patchgen(name, tmp_path, workspace, environment):
    """The environment that runs this test stands for the one of the action."""
    bin_folder = Path(environment["RUNNER_TEMP"], "patchgen", "bin")
    bin_folder.mkdir(parents=True)
    launcher = bin_folder / "python"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    (workspace / "pyproject.toml").write_text(
        "[tool.patchgen]\nsources = ['modular']\n", encoding="utf-8"
    )
    done = run(read_step(name), workspace, environment)
    assert not (tmp_path / "ran").exists()
    # Nothing is there to be checked, and no repository to make a branch in.
    wanted = (1, "PG506") if name == "Check" else (2, "git")
    assert done.returncode == wanted[0]
    assert wanted[1] in done.stdout + done.stderr
