"""Where a system lacks what Linux has, patchgen does the same in another way; what is missing is taken away here."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path, PureWindowsPath

import pytest

from patchgen import system
from patchgen.cli import main
from patchgen.project.config import Config
from patchgen.project.files import Project
from tests.toytree import REPOSITORY, toy_project

needs_fork = pytest.mark.skipif(not system.can_fork(), reason="this system cannot fork")


class TooSlow(Exception):
    pass


@needs_fork
def test_a_process_that_dies_costs_its_own_part():
    def work(part):
        if part == [Path("deadly")]:
            os._exit(3)
        return [path.name for path in part]

    parts = [[Path("a")], [Path("deadly")], [Path("b"), Path("c")]]
    assert system.run_in_workers(work, parts) == [["a"], None, ["b", "c"]]
    assert system.run_in_process(work, parts[1]) is None
    assert system.run_in_process(work, parts[2]) == ["b", "c"]


@pytest.mark.parametrize("timer", [True, False], ids=["timer", "no timer"])
def test_a_block_ends_after_its_time_of_the_processor(timer, monkeypatch):
    if timer and not hasattr(signal, "setitimer"):
        pytest.skip("this system has no timer")
    if not timer:
        monkeypatch.delattr(signal, "setitimer", raising=False)
    with pytest.raises(TooSlow), system.limited(0.3, TooSlow):
        while True:
            pass
    # Sleeping takes no time of the processor, and nothing is left of the limit afterwards.
    with system.limited(0.3, TooSlow):
        time.sleep(0.4)
    threads = threading.active_count()
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
    assert threading.active_count() == threads


def test_processors_without_a_list_of_those_allowed(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert system.processors() == os.cpu_count()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_peak_of_memory_without_proc(platform, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(system, "PROC", tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    unit = 1 if platform == "darwin" else 1024
    system.reset_peak_resident()
    assert system.peak_resident() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.mark.skipif(not Path("/proc/meminfo").is_file(), reason="only Linux has /proc")
def test_both_ways_to_available_memory_agree(tmp_path, monkeypatch):
    pytest.importorskip("psutil")
    by_proc = system.available_memory()
    monkeypatch.setattr(system, "PROC", tmp_path / "none")
    assert system.available_memory() == pytest.approx(by_proc, rel=0.2)


@pytest.mark.skipif(not Path("/proc/meminfo").is_file(), reason="only Linux has /proc")
def test_both_ways_to_what_another_process_takes_agree(tmp_path, monkeypatch):
    pytest.importorskip("psutil")
    code = "held = bytearray(2**26)\nsum(range(10**7))\nprint(1, flush=True)\ninput()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.readline()
        by_proc = system.resident_of(process.pid), system.spent_by(process.pid)
        monkeypatch.setattr(system, "PROC", tmp_path / "none")
        assert min(by_proc) > 0 and by_proc[0] > 2**26
        both = system.resident_of(process.pid), system.spent_by(process.pid)
        assert both == pytest.approx(by_proc, rel=0.2)
        process.communicate(b"\n")
    assert (system.resident_of(process.pid), system.spent_by(process.pid)) == (0, None)


def test_programs_of_windows_have_a_suffix(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python.exe"))
    assert system.program_beside_python("ruff") is None
    (tmp_path / "ruff.exe").touch()
    assert system.program_beside_python("ruff") == tmp_path / "ruff.exe"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path / "project")
    monkeypatch.chdir(tree.top)
    return tree


def test_windows_line_ends_give_the_same_bytes(tree, capsys):
    """As git leaves a checkout on Windows: all files, the records too."""
    assert main(["convert"]) == 0
    before = tree.contents()
    for name, data in before.items():
        tree(name).write_bytes(data.replace(b"\n", b"\r\n"))
    capsys.readouterr()
    assert main(["check", "--no-cache"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("PG501 is stale: only its line ends differ") == 2
    assert "eol=lf" in printed and "edited by hand" not in printed
    assert main(["convert"]) == 0
    after = tree.contents()
    outputs = [name for name in before if name.startswith("generated/")]
    assert {name: after[name] for name in outputs} == {name: before[name] for name in outputs}
    assert main(["check", "--no-cache"]) == 0


def test_paths_of_windows_are_shown_and_recorded_with_slashes():
    home = PureWindowsPath("C:/mine")
    project = Project(Config(home))  # what is read of it here is the same of a pure path
    assert project.display_path(home / "modular" / "modular_x.py") == "modular/modular_x.py"
    assert project.display_path(PureWindowsPath("D:/other/x.py")) == "D:/other/x.py"


def test_files_are_written_with_the_line_ends_of_unix():
    """Python ends lines as the system does unless it is told."""
    told = []
    for path in (REPOSITORY / "patchgen").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="write_text"), keywords=keywords):
                    if "newline" not in {keyword.arg for keyword in keywords}:
                        told.append(f"{path.name}:{node.lineno}")
    assert told == []
