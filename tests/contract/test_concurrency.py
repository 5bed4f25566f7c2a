"""Many processes, any order, killed at any time: the tree is what one run after the other makes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from patchgen.cli import main
from tests import deadly
from tests.toytree import command, environment, run, toy_project, variant

VARIANTS = 4  # enough for two workers and three; each takes a while to flatten
SLOW = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROUNDS = [pytest.param(1, id="one"), pytest.param(20, id="many", marks=SLOW)]
KILLS = [pytest.param(4, id="few"), pytest.param(200, id="many", marks=SLOW)]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path / "proj", variants=VARIANTS)
    monkeypatch.chdir(tree.top)
    return tree


def start(tree, *argv):
    """A command line in a process of its own, which goes on."""
    return start_program(tree, "-m", "patchgen", *argv)


def start_program(tree, *words):
    options = {
        "cwd": tree.top,
        "env": environment(),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    return subprocess.Popen([sys.executable, *words], text=True, **options)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one process makes of `tree`, with the files that it makes it from."""
    serial = toy_project(tmp_path_factory.mktemp("serial") / "proj", variants=VARIANTS)
    assert run(serial, "convert", "--jobs", "1").returncode == 0
    return serial.contents()


@pytest.mark.parametrize("jobs", ["2", "3"])
def test_the_number_of_workers_changes_nothing(jobs, tree, expected):
    done = run(tree, "convert", "--jobs", jobs)
    assert (done.returncode, tree.contents()) == (0, expected)


def test_current_folder_changes_nothing(tree, expected):
    assert run(tree, "convert", "../../modular", cwd=tree("lib/toy")).returncode == 0
    assert tree.contents() == expected


@pytest.mark.parametrize("rounds", ROUNDS)
def test_runs_at_once_give_what_one_gives(rounds, tree, tmp_path):
    serial = toy_project(tmp_path / "serial", variants=VARIANTS)
    for number in range(rounds):
        for each in (tree, serial):
            for index in range(1, VARIANTS + 1):
                each.write(
                    f"modular/v{index}/modular_v{index}.py", variant("A", f"{number}-{index}")
                )
        assert run(serial, "convert").returncode == 0
        parts = [["modular/v1", "modular/v2"], ["modular/v2", "modular/v3"], [], ["modular/v4"]]
        running = [start(tree, "convert", *part) for part in parts]
        assert [
            (process.communicate()[0], process.returncode) for process in running if process.wait()
        ] == []
        assert tree.contents() == serial.contents()
        assert run(tree, "check").returncode == 0


@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_any_time_tears_nothing(kills, tree):
    chance = random.Random(7)
    assert main(["convert", "-q"]) == 0
    texts = {name: {text} for name, text in tree.contents().items() if name.startswith("generated")}
    for number in range(kills):
        for index in range(1, VARIANTS + 1):
            tree.write(f"modular/v{index}/modular_v{index}.py", variant("A", f"{number}-{index}"))
        process = start(tree, "convert", "--no-cache")
        time.sleep(chance.uniform(0.1, 0.9))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        after_kill = tree.contents()
        says_clean = main(["check", "-q"]) == 0
        assert main(["convert", "-q"]) == 0
        is_clean = {**tree.contents(), **after_kill} == tree.contents()
        assert says_clean == is_clean, "check says what the kill left"
        for name, text in tree.contents().items():
            if name.startswith("generated"):
                texts.setdefault(name, set()).add(text)
                assert after_kill.get(name, text) in texts[name], f"{name} is torn"
        assert [name for name in tree.files() if ".tmp" in name] == []
    assert main(["check"]) == 0


INTERRUPTED = "patchgen: interrupted; every file that was written is complete\n"


# Says by a file that it waits: it has tried for the lock, slept, and tries again.  Whoever sends it a signal
# earlier may meet it in an import, where Python drops what is raised in some callbacks.
WAITS = """
import runpy, sys
def watch(event, args, tries=[]):
    if event == "fcntl.flock":
        tries.append(args)
        if len(tries) == 2:
            open(WAITING, "x").close()
sys.addaudithook(watch)
sys.argv = ["patchgen", "convert", "--no-cache"]
runpy.run_module("patchgen", run_name="__main__")
"""


def test_interrupted_from_the_terminal(tree, tmp_path):
    """While it waits for its turn to write."""
    from filelock import FileLock

    tree.state.mkdir(parents=True)
    before, waiting = tree.contents(), tmp_path / "waiting"
    with FileLock(tree.state / "lock"):
        process = start_program(tree, "-c", WAITS.replace("WAITING", repr(str(waiting))))
        while not waiting.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    assert (process.returncode, out.lstrip("\n")) == (130, INTERRUPTED)
    assert tree.contents() == before
    assert main(["convert", "-q"]) == 0


# Sends itself the signal when it begins to import a module, which is a place that no clock can miss.
INTERRUPTS_ITSELF = """
import os, runpy, signal, sys
def watch(event, args, left=[1]):
    if event == "import" and args[0] == WHEN and left:
        left.clear()
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
sys.argv = ["patchgen", "convert", "--no-cache"]
runpy.run_module("patchgen", run_name="__main__")
"""


@pytest.mark.parametrize(
    "when",
    [
        "patchgen.cli.commands",
        "click",
        "patchgen.cli.session",
        "patchgen.compiler.flatten",
        "black.report",
        "filelock",
    ],
)
def test_interrupted_at_any_time(when, tree):
    if when == "black.report":
        tree.edit("pyproject.toml", "[tool.patchgen]", '[tool.patchgen]\nformatter = "black"')
    argv = [sys.executable, "-c", INTERRUPTS_ITSELF.replace("WHEN", repr(when))]
    done = subprocess.run(
        argv, cwd=tree.top, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, (done.stdout + done.stderr).lstrip("\n")) == (130, INTERRUPTED)
    assert main(["convert", "-q"]) == 0


def test_a_worker_that_dies_costs_its_file_alone(tree, monkeypatch, capsys):
    from patchgen.project import pool

    tree.write("modular/v3/modular_deadly.py", variant("A", 3))
    monkeypatch.setattr(pool, "_work", deadly.work)
    assert main(["convert", "--jobs", "2"]) == 2
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "PG" in line] == [
        "modular/v3/modular_deadly.py: PG909 the process that flattened this file died"
    ]
    assert len([name for name in tree.files("generated") if name.endswith(".py")]) == VARIANTS


def test_workers_end_with_their_parent(tree):
    import psutil

    process = start(tree, "convert", "--no-cache", "--jobs", "2")
    workers: list[psutil.Process] = []
    end = time.monotonic() + 20
    while not workers and time.monotonic() < end and process.poll() is None:
        workers = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.01)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []


def test_a_run_that_looks_waits_for_one_that_writes(tree):
    """What is wrong while another run holds the lock is looked at again once it is done."""
    from filelock import FileLock

    assert main(["convert", "-q"]) == 0
    tree.edit("generated/v1/modeling_v1.py", "return 1", "return 111")
    with FileLock(tree.state / "lock"):
        process = start(tree, "check")
        time.sleep(1.0)
        assert process.poll() is None
        tree.edit("generated/v1/modeling_v1.py", "return 111", "return 1")
    assert process.communicate()[0] == f"{VARIANTS} outputs: {VARIANTS} ok\n"


def test_a_run_that_never_gets_its_turn_says_so(tree, monkeypatch, capsys):
    from filelock import FileLock

    from patchgen.project import write

    assert main(["convert", "-q"]) == 0
    tree.edit("modular/v1/modular_v1.py", "return 1", "return 111")
    monkeypatch.setattr(write, "PATIENCE", 0.2)
    with FileLock(tree.state / "lock"):
        assert main(["convert"]) == 2
    assert "PG906 another run of patchgen" in capsys.readouterr().err


def test_a_tree_that_was_moved_is_still_clean(tree, tmp_path):
    assert main(["convert", "-q"]) == 0
    shutil.move(tree.top, tmp_path / "moved")
    os.makedirs(tree.top)
    done = subprocess.run(
        command("check"), cwd=tmp_path / "moved", env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"{VARIANTS} outputs: {VARIANTS} ok\n")
