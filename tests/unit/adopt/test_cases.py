"""One folder a case: a parent, a fork of it, and the declaration that `patchgen adopt` writes.

`parent.py` stands for `transformers/models/toy/modeling_toy.py`.  Each declaration is flattened,
and gives the fork again.  What forks change in plain ways is drawn in `tests/population`.
PATCHGEN_REFRESH=1 writes what is so now; git then shows what that changes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen.author.adopt.forked import pair_with_parent
from patchgen.author.adopt.read import read_fork, with_plain_super
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.author.align.file import read_file
from patchgen.compiler.settings import Settings
from patchgen.syntax.text import make_source

CASES = sorted(Path(__file__).with_name("cases").iterdir())
MODULE = "transformers.models.toy.modeling_toy"
KERNELS = "def use_kernel_forward_from_hub(name): ...\n\n\ndef use_kernelized_func(function): ...\n"
LAYERS = "from torch import nn\n\n\nclass GradientCheckpointingLayer(nn.Module):\n    pass\n"
REFRESH = bool(os.environ.get("PATCHGEN_REFRESH"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path, tmp_path: Path) -> None:
    made = _adopted(case, tmp_path)
    expected = case / "declaration.py"
    if REFRESH:
        expected.write_text(made.text, encoding="utf-8")
    assert made.text == expected.read_text(encoding="utf-8")
    proof = made.proof
    assert (proof.problems, proof.differ, proof.missing) == ((), (), ())
    assert not proof.lost


def _adopted(case: Path, folder: Path) -> Adopted:
    root = folder / "release"
    path = root / "transformers" / "models" / "toy" / "modeling_toy.py"
    path.parent.mkdir(parents=True)
    for package in (path.parent, path.parents[1], path.parents[2]):
        (package / "__init__.py").touch()
    path.write_bytes((case / "parent.py").read_bytes())
    path.with_name("configuration_toy.py").write_text(
        "class ToyConfig:\n    pass\n", encoding="utf-8"
    )
    text = with_plain_super(path.read_text(encoding="utf-8"))
    parent = read_file(make_source(text, "transformers/models/toy/modeling_toy.py", MODULE))
    utils = root / "transformers" / "utils.py"
    utils.write_text("def is_flash_attn_2_available():\n    return False\n", encoding="utf-8")
    kernels = root / "transformers" / "integrations.py"
    kernels.write_text(KERNELS, encoding="utf-8")
    layers = root / "transformers" / "modeling_layers.py"
    layers.write_text(LAYERS, encoding="utf-8")
    fork = read_fork(case / "fork.py", "fork.py", Settings())
    forked = pair_with_parent(parent, fork, MODULE, "A fork.", root)
    return adopt(forked, "modular_fork.py", root, Settings())
