"""What is made to take long is refused within seconds: PG915, exit code 3, and nothing is written."""

import json
import os
import time
from pathlib import Path

import pytest

from patchgen import budget
from patchgen.budget import limit_work
from patchgen.cli import main
from patchgen.cli.report import Page, as_text
from patchgen.compiler.flat import Note
from patchgen.syntax.errors import Location, PatchgenError
from tests.toytree import toy_project

HEAD = "from toy import modeling_toy as toy\n\n\nclass A(toy.A):\n    def f(self):\n"
BODY = "        return 2\n"
# What a stranger writes, and what is said of it.
SLOW = {
    "comment": (HEAD + "        # " + "a " * 500_000 + "\n" + BODY, "has a line of 1,000,010 letters"),
    "string": (HEAD + f"        x = {'a' * 1_000_000!r}\n" + BODY, "has a line of 1,000,014 letters"),
    "list": (HEAD + "        x = [" + "1, " * 300_000 + "]\n" + BODY, "has a line of 900,014 letters"),
    "backslashes": (HEAD + "        x = 1 + \\\n" + "        \\\n" * 100_000 + "        2\n" + BODY, "lines"),
    "statements": (HEAD + "        x = 1\n" * 100_000 + BODY, "lines; the limit is 30,000"),
    "findings": (HEAD + BODY + "".join(f"\n\n@a\nclass A{n}(toy.B{n}):\n    pass\n" for n in range(1500)),
                 "findings are too many"),
}  # fmt: skip
COMMANDS = [
    ["check"],
    ["check", "--fix"],
    ["convert"],
    ["diff"],
    ["lint"],
    ["explain", "modular/v1/modular_v1.py"],
    ["page", "--out", "pages", "modular/v1/modular_v1.py"],
]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = toy_project(tmp_path / "project", variants=1)
    monkeypatch.chdir(tree.top)
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tree


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("form", ["text", "github", "json"])
def test_what_takes_long_is_refused(kind, form, tree, capsys):
    text, said = SLOW[kind]
    tree.write("modular/v1/modular_v1.py", text)
    before, began = tree.snapshot(), time.process_time()
    assert main(["convert", "--output-format", form]) == 3
    assert time.process_time() - began < 10
    out, _ = capsys.readouterr()
    assert "PG915" in out
    assert said in out
    assert len(out) < 2 * budget.REPORT
    if form == "json":
        assert json.loads(out)["problems"][-1]["code"] == "PG915"
    assert tree.snapshot().keys() - before.keys() <= {"patchgen.lock"}


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[0])
def test_by_every_command(argv, tree, capsys):
    tree.write("modular/v1/modular_v1.py", SLOW["comment"][0])
    before = tree.snapshot()
    assert main(argv) == 3
    both = capsys.readouterr()
    assert "PG915" in both.out + both.err
    after = tree.snapshot()
    assert after.keys() - before.keys() <= {"pages/index.html"}  # which says it
    assert before.items() <= after.items()


def test_a_parent_that_takes_long(tree, capsys):
    tree.edit("lib/toy/modeling_toy.py", "import math", f"import math  # {'a' * 1_000_000}")
    assert main(["check"]) == 3
    assert "(at toy/modeling_toy.py:3:1)" in capsys.readouterr().out


def test_notes_of_many_files():
    notes = tuple(Note(Location(f"modular_{number}.py", 1, 1), "a note") for number in range(1100))
    shown = as_text(Page(printed_notes=notes)).splitlines()
    assert len(shown) == budget.FINDINGS + 1
    assert shown[-1] == "100 lines of notes left out"


def test_time(monkeypatch):
    with pytest.raises(PatchgenError, match=r"modular_x\.py: PG915 took more than 0 seconds"):
        with limit_work(Location("modular_x.py"), 0.3):
            while True:
                pass


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="only Linux tells")
def test_memory(monkeypatch):
    monkeypatch.setattr(budget, "MEGABYTES", 50)
    kept = []
    with pytest.raises(PatchgenError, match="PG915 took more than 50 MB of memory"):
        with limit_work(Location("modular_x.py")):
            while True:
                kept.append(list(range(10_000)))


def test_an_outer_limit_goes_on():
    with pytest.raises(PatchgenError, match="outer: PG915"):
        with limit_work(Location("outer"), 0.4):
            with limit_work(Location("inner"), 30):
                sum(range(100_000))
            while True:
                pass


def test_a_person_lifts_it(tree, monkeypatch):
    tree.write("modular/v1/modular_v1.py", HEAD + "        # " + "a" * 30_000 + "\n" + BODY)
    assert main(["convert", "-q"]) == 3
    monkeypatch.setenv("PATCHGEN_UNLIMITED", "1")
    assert main(["convert", "-q"]) == 0


def test_no_real_source_comes_near():
    """The files of the installed release: at most a quarter of each limit."""
    import importlib.util

    folder = Path(importlib.util.find_spec("transformers").origin).parent
    for path in folder.rglob("*.py"):
        lines = path.read_bytes().split(b"\n")
        assert len(lines) * 4 < budget.LINES, path
        assert max(map(len, lines)) * 3 < budget.LINE, path
