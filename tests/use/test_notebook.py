"""The commands as functions, as a notebook calls them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import patchgen
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError
from tests.toytree import environment, toy_project

UNGUARDED = """\
import patchgen

print("begun", patchgen.verify)
patchgen.new("albert", "checkpoint")
patchgen.convert("albert_checkpoint")
found = patchgen.verify("albert_checkpoint", dtypes=["float32"], mutants=0)
print(found)
print(found.is_proven, len(found.results) > 5, found._repr_markdown_().split()[:2])
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tree


def test_a_new_variant_is_written_converted_and_checked(project):
    path = patchgen.new("qwen3", "loss, norm")
    assert path == project("modular/qwen3/modular_qwen3_loss_norm.py")
    written = patchgen.convert("qwen3_loss_norm")
    assert "generated/qwen3/modeling_qwen3_loss_norm.py" in written
    assert patchgen.convert("qwen3_loss_norm") == ()
    assert patchgen.check("qwen3_loss_norm") == ()
    # The same as the command.
    text = path.read_text(encoding="utf-8")
    path.unlink()
    assert main(["new", "qwen3", "--with", "loss,norm", "--no-proof"]) == 0
    assert path.read_text(encoding="utf-8") == text


def test_what_is_not_up_to_date_is_returned(project):
    findings = patchgen.check()
    missing = [finding.at.path for finding in findings if finding.code == "PG502"]
    assert missing == ["generated/v1/modeling_v1.py", "generated/v2/modeling_v2.py"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: patchgen.new("nothing", "loss"), "PG801"),
        (lambda: patchgen.new("llama", "nothing"), "PG802"),
        (lambda: patchgen.new("llama", "checkpoint"), "PG803"),
        (lambda: patchgen.convert("nothing"), "PG916"),
        (lambda: patchgen.verify("nothing"), "PG917"),
    ],
)
def test_what_a_command_prints_is_raised(call, code, project):
    with pytest.raises(PatchgenError) as raised:
        call()
    assert raised.value.problem.code == code


def test_a_file_that_is_there_is_kept(project):
    path = patchgen.new("llama", ["norm"])
    path.write_text("# mine\n", encoding="utf-8")
    with pytest.raises(PatchgenError, match="PG804"):
        patchgen.new("llama", "norm")
    assert path.read_text(encoding="utf-8") == "# mine\n"
    patchgen.new("llama", "norm", force=True)
    assert path.read_text(encoding="utf-8") != "# mine\n"


def test_an_import_shows_what_there_is_and_costs_nothing():
    code = (
        "import sys, patchgen; before = set(sys.modules); names = dir(patchgen)\n"
        "assert set(sys.modules) == before and not any('torch' in name for name in before)\n"
        "print(*names)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    names = done.stdout.split()
    assert names == [name for name in names if hasattr(patchgen, name)]
    assert {"load", "new", "convert", "check", "export", "unpatch"} <= {*names}


def test_a_script_verifies_without_a_guard(project):
    """A worker does not run the script again, which has no `if __name__ == "__main__"`."""
    pytest.importorskip("torch")
    project("mine.py").write_text(UNGUARDED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "mine.py"],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=project.top,
    )
    assert done.returncode == 0, done.stderr
    begun, verdict, last = done.stdout.splitlines()
    assert begun.startswith("begun <function verify")
    assert verdict == "albert_checkpoint: proven"
    assert last == "True True ['#', 'Parity']"
