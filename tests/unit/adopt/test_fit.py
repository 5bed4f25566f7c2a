"""What a fork's code needs of a release is looked up without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.author.adopt.fit import blockers, homes, lacking_imports, misfits
from patchgen.author.adopt.forked import ForkedModel, pair_with_parent
from patchgen.author.align.file import read_file
from patchgen.syntax.text import make_source

MODULE = "transformers.models.toy.modeling_toy"
PARENT = "class Rotary:\n    def __init__(self, dim):\n        pass\n\n\nclass Toy:\n    pass\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "transformers"
    (package / "utils").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "utils" / "__init__.py").write_text("from .generic import is_here\n")
    (package / "utils" / "logging.py").touch()
    (package / "flash.py").write_text("def _unpad(mask):\n    return mask\n")
    return tmp_path


def _forked(root: Path, fork: str) -> ForkedModel:
    parent = read_file(make_source(PARENT, "parent.py"))
    return pair_with_parent(parent, read_file(make_source(fork, "fork.py")), MODULE, root=root)


def test_a_name_that_another_module_defines_has_a_home(root: Path) -> None:
    forked = _forked(root, "class Toy:\n    def run(self):\n        return _unpad(nowhere)\n")
    assert homes(forked) == {"_unpad": "transformers.flash"}
    assert list(blockers(forked)) == ["nowhere"]


@pytest.mark.parametrize(("call", "fits"), [("dim=1", True), ("1", True), ("config=1", False)])
def test_a_call_of_the_parents_class_has_to_fit(root: Path, call: str, fits: bool) -> None:
    forked = _forked(root, f"class Toy:\n    def run(self):\n        return Rotary({call})\n")
    assert misfits(forked) == ([] if fits else ["Rotary"])


@pytest.mark.parametrize(
    ("parameters", "fits"), [("self, dim=1", True), ("self, dim, base", False)]
)
def test_a_class_that_the_fork_left_out_has_to_fit(root: Path, parameters: str, fits: bool) -> None:
    """The output keeps it, and it calls what the fork has."""
    left_out = "class Layer:\n    def run(self):\n        return Rotary(1)\n"
    parent = read_file(make_source(PARENT + left_out, "parent.py"))
    text = (
        f"class Toy:\n    pass\n\n\nclass Rotary:\n    def __init__({parameters}):\n        pass\n"
    )
    forked = pair_with_parent(parent, read_file(make_source(text, "fork.py")), MODULE, root=root)
    assert misfits(forked) == ([] if fits else ["Rotary"])


def test_imports_that_the_release_lacks_are_named(root: Path) -> None:
    text = (
        "from transformers.utils import is_here, is_gone, logging\nfrom transformers.new import X\n"
    )
    fork = read_file(make_source(text, "fork.py"))
    assert lacking_imports(fork, root) == ["transformers.utils.is_gone", "transformers.new.X"]
