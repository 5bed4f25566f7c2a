"""`patchgen retire`: what upstream has by now, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.unit.survive.conftest import PARENT, make_release

BASE = '''"""A base more."""

from torch.nn import Flatten
from transformers.models.toy import modeling_toy as toy


class ToyNorm(toy.ToyNorm, Flatten):
    pass
'''
# What the next release says instead, and what is named then.
CASES = {
    "nothing": ("", "", []),
    "something else": ("torch.relu(x)", "torch.selu(x)", []),
    "the edit, and more": (
        "x = self.up(x)\n        return torch.relu(x)",
        "return torch.tanh(x)",
        [],
    ),
    "the edit": ("torch.relu(x)", "torch.tanh(x)", ["edit ToyMLP.forward"]),
    "the edit, annotated": (
        "self, x):\n        x = self.up(x)\n        return torch.relu(x)",
        "self, x: int):\n        x = self.up(x)\n        return torch.tanh(x)",
        ["edit ToyMLP.forward"],
    ),
    "the override": ("x / x.norm()", "x / (x.norm() + 1e-6)", ["override ToyNorm.forward"]),
    "the attribute": ("scale = 1", "scale = 2", ["attribute ToyMLP.scale"]),
    "another value": ("scale = 1", "scale = 3", []),
    "the base": (
        "import torch\n",
        "import torch\nfrom torch.nn import Flatten\n",
        [],
    ),
}


@pytest.fixture
def retired(project, cli, tmp_path):
    """Converts the variants on one release, and asks what the next one has of them."""

    def run(old: str, new: str) -> list[dict]:
        first = make_release(tmp_path / "releases", "5.1.0", PARENT)
        make_release(tmp_path / "releases", "5.2.0", PARENT.replace(old, new), wheel=True)
        assert cli("convert", "--quiet", "--package-root", str(first))[0] == 0
        known = ("--releases-dir", str(tmp_path / "releases"), "--release", "5.2.0")
        code, out = cli("retire", *known, "--output-format", "json")
        rows = json.loads(out)["variants"]
        assert code == int(any(row["caught_up"] for row in rows))
        return rows

    return run


@pytest.mark.parametrize("case", CASES)
def test_what_is_named(case, retired):
    old, new, expected = CASES[case]
    found = [
        f"{one['kind']} {one['name']}" for row in retired(old, new) for one in row["caught_up"]
    ]
    assert found == expected


def test_a_base_that_the_parent_has(project, retired):
    project.write("modular/toy/modular_toy_based.py", BASE)
    rows = retired("class ToyNorm(nn.Module)", "class ToyNorm(Flatten)")
    assert not any(row["caught_up"] for row in rows)
    new = "from torch.nn import Flatten\n\n\nclass ToyNorm(Flatten)"
    (based, *others) = retired("\n\nclass ToyNorm(nn.Module)", new)
    assert [one["name"] for one in based["caught_up"]] == ["ToyNorm from Flatten"]
    assert based["whole"] and not any(row["caught_up"] for row in others)


def test_it_says_what_to_delete(project, retired, cli, tmp_path):
    retired("torch.relu(x)", "torch.tanh(x)")
    known = ("--releases-dir", str(tmp_path / "releases"), "--release", "5.2.0")
    lines = cli("retire", *known)[1].splitlines()
    assert lines == [
        "modular/toy/modular_toy_edited.py:10:5: ToyMLP.forward: transformers 5.2.0 has this edit",
        "    hint: delete lines 10 to 15",
        "modular/toy/modular_toy_edited.py: nothing else is left of the variant",
        "    hint: delete the file, and run `patchgen convert` to remove its outputs",
        "1 changes of 2 variants are in transformers 5.2.0",
    ]
