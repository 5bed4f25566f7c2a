"""What is left to a person stands in the modular file, above the declaration that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.cli import main
from tests.toytree import Tree
from tests.unit.rebase.test_planted import HEAD, PARENT, changed, release

PATH = "modular/a/modular_a.py"
ROOTS = ("--from-root", "../old", "--to-root", "../new", "--write")
OVERRIDE = """class ToyMLP(toy.ToyMLP):
    rate = 1

    def forward(self, x):
        return self.down(self.act(self.gate(x)).float() * self.up(x))
"""
UPSTREAM = [["gate = self.act(self.gate(x))\n", "gate = self.act(self.gate(x) * 2)\n"]]
TOLD = """class ToyMLP(toy.ToyMLP):
    rate = 1

    # rebase: ToyMLP.forward: stale override
    # rebase: upstream changed the code that the declaration changes, or stands beside
    # rebase: @@ -1,3 +1,3 @@
    # rebase:  def forward(self, x):
    # rebase: -    gate = self.act(self.gate(x))
    # rebase: +    gate = self.act(self.gate(x) * 2)
    # rebase:      up = self.up(x)
    # rebase: follow it, or keep the override (`patchgen convert --accept`); then delete these comments
    def forward(self, x):
        return self.down(self.act(self.gate(x)).float() * self.up(x))
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A project with an override that upstream changed; it is the current folder."""
    release(tmp_path / "old", PARENT)
    release(tmp_path / "new", changed(UPSTREAM))
    tree = Tree(tmp_path / "proj")
    tree.write("pyproject.toml", '[tool.patchgen]\nsources = ["modular"]\n')
    tree.write(PATH, HEAD + OVERRIDE)
    monkeypatch.chdir(tree.top)
    return tree


def test_comments_say_what_upstream_changed(tree: Tree) -> None:
    assert main(["rebase", *ROOTS]) == 1
    assert tree.read(PATH) == HEAD + TOLD
    # The file converts with them, and the next rebase replaces them.
    assert main(["convert", "--quiet", "--package-root", "../new"]) == 0
    assert main(["rebase", *ROOTS]) == 1
    assert tree.read(PATH) == HEAD + TOLD


def test_comments_go_with_what_they_are_about(tree: Tree) -> None:
    main(["rebase", *ROOTS])
    solved = "        gate = self.act(self.gate(x).float())\n        return self.down(gate * self.up(x))\n"
    text = tree.read(PATH)
    tree.write(PATH, text[: text.index("        return self.down")] + solved)
    assert main(["rebase", "--from-root", "../new", "--to-root", "../new", "--write"]) == 0
    assert "# rebase:" not in tree.read(PATH) and solved in tree.read(PATH)


def test_noop_without_write(tree: Tree) -> None:
    before = tree.snapshot()
    assert main(["rebase", *ROOTS[:-1]]) == 1
    assert tree.snapshot() == before


@pytest.mark.parametrize("is_open", [False, True])
def test_what_is_merged_needs_nobody_to_accept_it(is_open: bool, tree: Tree) -> None:
    own = "self.gate(x).float()" if is_open else "self.gate(x) * 2"
    method = f"gate = self.act({own})\n        up = self.up(x.float())\n"
    tree.write(
        PATH, f"{HEAD}{OVERRIDE[: OVERRIDE.index('return')]}{method}        return gate, up\n"
    )
    assert main(["convert", "--quiet", "--package-root", "../old"]) == 0
    assert main(["rebase", *ROOTS]) == is_open
    assert main(["convert", "--quiet", "--package-root", "../new"]) == is_open
    assert main(["check", "--quiet", "--package-root", "../new"]) == is_open
