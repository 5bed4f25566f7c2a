"""Imports of transformers that the new release has elsewhere, or calls otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.author.rebase.imports import find_new_place
from patchgen.author.rebase.releases import Tree as Release
from patchgen.cli import main
from patchgen.syntax.locate import make_environment
from tests.toytree import Tree
from tests.unit.rebase.test_planted import PARENT, changed, release

MODULAR = """from transformers.activations import ACT2FN
from transformers.models.toy import modeling_toy as toy
from transformers.utils import rotate, from_hub


class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return self.down(ACT2FN["silu"](self.gate(x))), rotate, from_hub
"""
FOLLOWED = MODULAR.replace("activations", "acts").replace(
    "import rotate, from_hub", "import turn as rotate, from_hub"
)


def test_what_moved_or_was_renamed_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    release(tmp_path / "old", PARENT)
    imports = [["from ...activations import ACT2FN", "from ...acts import ACT2FN"]]
    imports += [["from ...utils import rotate", "from ...utils import turn as rotate"]]
    new = release(tmp_path / "new", changed(imports)) / "transformers"
    (new / "activations.py").rename(new / "acts.py")
    utils = (new / "utils.py").read_text(encoding="utf-8")
    (new / "utils.py").write_text(utils.replace("rotate", "turn"), encoding="utf-8")
    tree = Tree(tmp_path / "proj")
    tree.write("pyproject.toml", '[tool.patchgen]\nsources = ["modular"]\n')
    path = "modular/a/modular_a.py"
    tree.write(path, MODULAR)
    monkeypatch.chdir(tree.top)
    roots = ["--from-root", "../old", "--to-root", "../new"]
    assert main(["rebase", *roots, "--write"]) == 0
    assert tree.read(path) == FOLLOWED
    assert "imports now: from transformers.acts import ACT2FN" in capsys.readouterr().out


LAYER = """

class Layer:
    def __call__(self, *args, **kwargs):
        if self.recomputes and self.training:
            kwargs["past"] = None
            return self.recompute(self.forward, *args, **kwargs)
        return self.forward(*args, **kwargs)
"""
RECOMPUTED = LAYER.replace("past", "cache").replace("class Layer", "class Recomputed")
STRANGER = """

class Block:
    def __init__(self, config):
        self.layers = [Layer(config, index) for index in range(config.layers)]
"""


@pytest.mark.parametrize(
    "added, found", [(STRANGER + RECOMPUTED, "Recomputed"), (STRANGER, "Layer")]
)
def test_what_was_renamed_and_changed_is_followed(added: str, found: str, tmp_path: Path) -> None:
    trees = []
    for name, text in (("old", LAYER), ("new", added)):
        root = release(tmp_path / name, PARENT)
        with (root / "transformers/utils.py").open("a", encoding="utf-8") as file:
            file.write(text)
        trees.append(Release(make_environment(tmp_path, root, ())))
    place = find_new_place("transformers.utils", "Layer", (trees[0], trees[1]))
    assert place == ("transformers.utils", found)
