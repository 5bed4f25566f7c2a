"""`utils/upgrade.py`, which a scheduled workflow runs: a branch with what a new release needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY, environment
from tests.unit.survive.conftest import PARENT, make_release

SCRIPT = REPOSITORY / "utils" / "upgrade.py"


def _git(home: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def upgrade(project, cli, tmp_path):
    """Commits the converted project, and runs the script on a next release."""

    def run(text: str) -> tuple[int, str, str]:
        old = make_release(tmp_path / "old", "5.1.0", PARENT)
        new = make_release(tmp_path / "new", "5.2.0", text)
        if not project(".git").exists():
            cli("convert", "--quiet", "--package-root", str(old))
            project.write(".gitignore", ".patchgen_cache\n")
            _git(project.top, "init", "--quiet", "--initial-branch", "main")
            _git(project.top, "add", "--all")
            _git(project.top, "commit", "--quiet", "-m", "Begin")
        words = ["--from-root", old, "--to-root", new, "--text", tmp_path / "text.md"]
        done = subprocess.run(
            [sys.executable, SCRIPT, *words, "--outputs", tmp_path / "outputs"],
            cwd=project.top,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        text_of_request = (
            (tmp_path / "text.md").read_text() if (tmp_path / "text.md").exists() else ""
        )
        return done.returncode, done.stdout + done.stderr, text_of_request

    return run


def test_a_branch_with_what_is_clear_and_a_list_of_the_rest(upgrade, project, tmp_path):
    text = PARENT.replace("torch.relu(x)", "torch.relu(x, out=None)").replace(
        "x / x.norm()", "x / x.norm(2)"
    )
    project.edit("modular/toy/modular_toy_edited.py", "torch.tanh(x)", "torch.relu(2 * x)")
    project.write("notes.txt", "not committed\n")
    code, out, text_of_request = upgrade(text)
    assert (code, out) == (0, "made the branch transformers-5.2.0\n")
    assert (tmp_path / "outputs").read_text() == (
        f"branch=transformers-5.2.0\nversion=5.2.0\ntext={tmp_path / 'text.md'}\n"
    )
    changed = _git(project.top, "diff", "--name-only", "main", "transformers-5.2.0").split()
    assert "modular/toy/modular_toy_edited.py" in changed
    assert "generated/toy/modeling_toy_edited.py" in changed
    edited = _git(project.top, "show", "transformers-5.2.0:modular/toy/modular_toy_edited.py")
    assert "torch.relu(2 * x, out=None)" in edited
    assert "1 of 2 modular files need nobody" in text_of_request
    assert (
        "### modular/toy/modular_toy_overridden.py\n\n- [ ] `ToyNorm.forward`: " in text_of_request
    )
    assert "- modular/toy/modular_toy_edited.py: `ToyMLP.forward`: re-anchored" in text_of_request
    assert (
        "## `patchgen check` fails" in text_of_request
        and "PG510 ToyNorm.forward overrides" in text_of_request
    )
    # The checkout is as it was, with what was not committed.
    assert _git(project.top, "branch", "--show-current") == "main\n"
    assert "out=None" not in project.read("modular/toy/modular_toy_edited.py")
    assert _git(project.top, "worktree", "list").count("\n") == 1


@pytest.mark.slow
def test_nothing_is_done_twice(upgrade, project):
    text = PARENT.replace("self.up(x)", "self.up(2 * x)")
    assert upgrade(text)[1] == "made the branch transformers-5.2.0\n"
    before = _git(project.top, "rev-parse", "transformers-5.2.0")
    assert upgrade(text)[:2] == (0, "transformers-5.2.0: nothing to do\n")
    assert _git(project.top, "rev-parse", "transformers-5.2.0") == before


@pytest.mark.slow
def test_no_branch_where_nothing_changes(upgrade, project):
    assert upgrade(PARENT) == (0, "transformers-5.2.0: nothing to do\n", "")
    assert _git(project.top, "branch", "--list").split() == ["*", "main"]


@pytest.mark.slow
def test_a_lock_that_cannot_be_read_makes_no_branch(upgrade, project):
    upgrade(PARENT)
    project.write("patchgen.lock", "<<<<<<< ours\n")
    _git(project.top, "commit", "--quiet", "-am", "Break the lock")
    code, out, text_of_request = upgrade(PARENT.replace("relu", "selu"))
    assert (code, text_of_request) == (2, "")
    assert "patchgen rebase failed" in out and "PG507" in out
    assert _git(project.top, "branch", "--list").split() == ["*", "main"]
