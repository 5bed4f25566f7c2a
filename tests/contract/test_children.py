"""Every program starts in `patchgen/children.py`: isolated, within a limit, and ended with patchgen."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchgen import children
from patchgen.syntax.errors import PatchgenError
from tests.toytree import REPOSITORY

FILES = sorted([*REPOSITORY.glob("patchgen/**/*.py"), *REPOSITORY.glob("utils/*.py")])
STARTS = ("system", "popen", "exec", "spawn", "posix_spawn", "fork", "startfile")
# Modules that start processes, and the files that may import them.
MODULES = {
    "subprocess": {"patchgen/children.py"},
    "multiprocessing": {"patchgen/project/pool.py", "patchgen/verifying/run.py"},
    "pty": set(),
    "_posixsubprocess": set(),
}
FORKS = {"patchgen/system.py"}  # a copy of this process, which starts no program


def starts_of(tree: ast.Module):
    """(line, what) of each call or import that may start a process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").split(".")[0]
            if node.module == "os":
                yield from ((node.lineno, f"os.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("create_subprocess"):
            yield node.lineno, "subprocess"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os":
            yield node.lineno, f"os.{node.attr}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_no_other_file_starts_a_process(path):
    name = path.relative_to(REPOSITORY).as_posix()
    for line, what in starts_of(ast.parse(path.read_text(encoding="utf-8"))):
        assert name in MODULES.get(what, {name}), f"{name}:{line} imports {what}"
        if what.startswith(tuple(f"os.{start}" for start in STARTS)):
            assert name in FORKS, f"{name}:{line} calls {what}"


def test_python_takes_nothing_from_the_folder_or_the_environment(tmp_path, monkeypatch):
    for name in ("sitecustomize", "types", "runpy", "patchgen", "click"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "types.py"))
    done = children.run(children.python("patchgen", "--version"), tmp_path, 60)
    assert done.stdout.startswith("patchgen "), done.stderr
    assert not (tmp_path / "ran").exists()


def test_folders_that_are_named_come_first(tmp_path):
    (tmp_path / "click.py").write_text("print('mine')\nraise SystemExit(7)\n")
    command = children.python("patchgen", "--version", first=[str(tmp_path)])
    done = children.run(command, tmp_path.parent, 60)
    assert (done.stdout, done.returncode) == ("mine\n", 7)


# Writes its number, and starts another program that it does not wait for.
LASTING = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1] + ".new", "w").write(f"{os.getpid()} {other.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="asks /proc what runs")


@needs_proc
def test_what_takes_too_long_is_ended_with_what_it_started(tmp_path):
    note = tmp_path / "pids"
    with pytest.raises(PatchgenError) as refused:
        children.run([sys.executable, "-c", LASTING, str(note)], tmp_path, 1)
    assert refused.value.problem.code == "PG915"
    pids = [int(word) for word in note.read_text().split()]
    wait_until(lambda: not any(map(is_running, pids)))


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_programs_end_with_patchgen(number, tmp_path):
    note = tmp_path / "pids"
    code = "import sys; from patchgen import children; children.run(sys.argv[1:], None, 60)"
    started = [sys.executable, "-c", LASTING, str(note)]
    with subprocess.Popen([sys.executable, "-c", code, *started], cwd=REPOSITORY) as parent:
        wait_until(note.exists)
        parent.send_signal(number)
    pids = [int(word) for word in note.read_text().split()]
    wait_until(lambda: not any(map(is_running, pids)))


def test_exit_codes_and_output_come_back(tmp_path):
    code = "import sys; print('öut'); print('err', file=sys.stderr); sys.exit(7)"
    done = children.run([sys.executable, "-X", "utf8", "-c", code], tmp_path, 60)
    assert (done.returncode, done.stdout, done.stderr) == (7, "öut\n", "err\n")
    assert children.run(["no-such-program"], tmp_path, 60).returncode == 127


MODULAR = """
from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        return self.down_proj(self.up_proj(x))
"""


@pytest.mark.parametrize("launch", ["script", "module"])
def test_workers_take_nothing_from_the_folder(launch, tmp_path):
    """multiprocessing starts Python with `-c`, which searches the current folder first."""
    for name in ("multiprocessing", "struct", "signal", "pickle", "tomllib", "libcst", "click"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n"
        )
    for number in range(2):
        modular = tmp_path / f"modular/m{number}/modular_m{number}.py"
        modular.parent.mkdir(parents=True)
        modular.write_text(MODULAR, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.patchgen]\nsources = ['modular']\n")
    script = Path(sys.executable).with_name("patchgen")
    starts = {"script": [str(script)], "module": [sys.executable, "-m", "patchgen"]}
    argv = [*starts[launch], "check", "--no-cache", "--jobs", "2"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert not (tmp_path / "ran").exists()
