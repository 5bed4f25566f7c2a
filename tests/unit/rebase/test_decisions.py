"""What is left to a person is recorded; what a person decided is used for the next variant."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen.cli import main
from tests.toytree import Tree
from tests.unit.rebase.test_planted import HEAD, PARENT, changed, release

FILE = "patchgen.decisions.toml"
A, B, C = (f"modular/{name}/modular_{name}.py" for name in "abc")
UPSTREAM = [
    ["        gate = self.act(self.gate(x))\n", "        gate = self.act(self.gate(x) * 2)\n"]
]
EDIT = """class ToyMLP(toy.ToyMLP):
    @edit("forward")
    def limit(self, x):
        with old:
            self.act(self.gate(x))
        with new:
            self.act(self.gate(torch.tanh(x)) * 3)
"""
SOLVED = """class ToyMLP(toy.ToyMLP):
    @edit("forward")
    def limit(self, x):
        with old:
            self.act(self.gate(x) * 2)
        with new:
            self.act(self.gate(torch.tanh(x)) * 6)
"""
OVERRIDE = """class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return x
"""

Rebase = Callable[..., dict[str, str]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A project of two variants with the same edit, and two releases; it is the current folder."""
    release(tmp_path / "old", PARENT)
    release(tmp_path / "new", changed(UPSTREAM))
    tree = Tree(tmp_path / "proj")
    tree.write("pyproject.toml", '[tool.patchgen]\nsources = ["modular"]\n')
    tree.write(A, HEAD + EDIT)
    tree.write(B, HEAD + EDIT + '\n\nclass ToyLayer(toy.ToyLayer):\n    """Another."""\n')
    monkeypatch.chdir(tree.top)
    return tree


@pytest.fixture
def rebase(tree: Tree, capsys: pytest.CaptureFixture[str]) -> Rebase:
    """The states of the changes of one modular file."""

    def run(name: str, *options: str) -> dict[str, str]:
        capsys.readouterr()
        roots = ("--from-root", "../old", "--to-root", "../new")
        code = main(["rebase", name, *roots, "--output-format", "json", *options])
        (reported,) = json.loads(capsys.readouterr().out)
        assert code == int(not reported["done"])
        return {f"{one['class']}.{one['member']}": one["state"] for one in reported["changes"]}

    return run


def entry_of(tree: Tree) -> dict[str, str]:
    """The only entry."""
    ((_, conflicts),) = tomllib.loads(tree.read(FILE)).items()
    ((_, entry),) = conflicts.items()
    return entry


def decide(tree: Tree, decision: str) -> None:
    tree.write(FILE, tree.read(FILE) + f"decision = '''\n{decision}'''\n")


def test_a_conflict_is_recorded_and_its_solution_is_used(tree: Tree, rebase: Rebase) -> None:
    assert rebase(A, "--write") == {"ToyMLP.forward": "conflict"}
    entry = entry_of(tree)
    assert entry["modular"] == A and "decision" not in entry
    assert "+    gate = self.act(self.gate(x) * 2)" in entry["upstream"]
    assert entry["declared"].startswith('@edit("forward")\ndef limit(self, x):\n')
    # Somebody solves it in one variant.
    tree.write(A, HEAD + SOLVED)
    assert rebase(B, "--write")["ToyMLP.forward"] == "decided"
    assert SOLVED in tree.read(B) and '"""Another."""' in tree.read(B)
    assert "torch.tanh(x)) * 6" in entry_of(tree)["decision"]


def test_noop_without_write_nothing_is_recorded(tree: Tree, rebase: Rebase) -> None:
    before = tree.snapshot()
    assert rebase(A) == {"ToyMLP.forward": "conflict"}
    assert tree.snapshot() == before


def test_noop_an_open_entry_decides_nothing(tree: Tree, rebase: Rebase) -> None:
    rebase(A, "--write")
    before = tree.snapshot()
    # A comment is no decision either.
    tree.write(A, HEAD + EDIT.replace("    @edit", "    # Why.\n    @edit"))
    assert rebase(B, "--write")["ToyMLP.forward"] == "conflict"
    assert tree.snapshot()[FILE] == before[FILE]


@pytest.mark.slow
def test_noop_another_declaration_is_another_conflict(tree: Tree, rebase: Rebase) -> None:
    rebase(A, "--write")
    tree.write(A, HEAD + SOLVED)
    tree.write(B, HEAD + EDIT.replace("* 3", "* 4"))
    assert rebase(B, "--write") == {"ToyMLP.forward": "conflict"}


@pytest.mark.parametrize("decision, left", [("keep", OVERRIDE), ("drop", "")])
def test_words_decide(decision: str, left: str, tree: Tree, rebase: Rebase) -> None:
    tree.write(A, HEAD + OVERRIDE + "\n\nRATE = 1\n")
    assert rebase(A, "--write")["ToyMLP.forward"] == "stale override"
    tree.write(FILE, tree.read(FILE) + f'decision = "{decision}"\n')
    assert rebase(A, "--write")["ToyMLP.forward"] == "decided"
    assert (OVERRIDE in tree.read(A)) == bool(left)


@pytest.mark.slow
def test_what_is_taken_out_by_hand_is_dropped(tree: Tree, rebase: Rebase) -> None:
    rebase(A, "--write")
    tree.write(A, HEAD + "class ToyMLP(toy.ToyMLP):\n    rate = 1\n")
    assert rebase(B, "--write")["ToyMLP.forward"] == "decided"
    assert "limit" not in tree.read(B)


@pytest.mark.slow
def test_noop_a_class_with_another_name_decides_nothing(tree: Tree, rebase: Rebase) -> None:
    rebase(A, "--write")
    tree.write(A, HEAD + EDIT.replace("class ToyMLP(", "class TinyMLP("))
    assert rebase(B, "--write")["ToyMLP.forward"] == "conflict"


def test_a_decision_that_does_not_convert_is_left_to_a_person(tree: Tree, rebase: Rebase) -> None:
    rebase(A, "--write")
    decide(tree, SOLVED.partition("\n")[2].replace("self.gate(x) * 2", "self.gate(x) * 5"))
    before = tree.read(B)
    assert rebase(B, "--write")["ToyMLP.forward"] == "conflict"
    assert tree.read(B) == before


@pytest.mark.parametrize(
    "broken",
    [
        "<<<<<<< HEAD\n",
        "decision = '''\ndef f(:\n'''\n",
        "decision = 3\n",
        "decison = 'keep'\n",
        "decision = '''\n@edit(",
    ],
)
def test_a_half_written_file_is_an_error_and_nothing_is_lost(
    broken: str, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ("modular", "conflict", "upstream", "declared")
    entry = "".join(f'{field} = "a"\n' for field in fields)
    tree.write(FILE, f'["ToyMLP.forward"."1"]\n{entry}{broken}')
    before = tree.snapshot()
    assert main(["rebase", B, "--from-root", "../old", "--to-root", "../new", "--write"]) == 1
    out, err = capsys.readouterr()
    assert f"{FILE}: PG800 " in out + err
    assert tree.snapshot() == before
