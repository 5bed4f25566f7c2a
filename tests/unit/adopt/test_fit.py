"""What a fork's code needs of a release is looked up without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.author.adopt.forked import (
    ForkedModel,
    lacking_imports,
    pair_with_parent,
    unbound,
)
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
    return tmp_path


def _forked(root: Path, fork: str) -> ForkedModel:
    parent = read_file(make_source(PARENT, "parent.py"))
    return pair_with_parent(parent, read_file(make_source(fork, "fork.py")), MODULE, root=root)


def test_a_name_that_nothing_binds_is_named(root: Path) -> None:
    forked = _forked(
        root, "class Toy:\n    def run(self):\n        return Rotary(nowhere, max(1))\n"
    )
    assert unbound(forked) == {"nowhere"}


def test_imports_that_the_release_lacks_are_named(root: Path) -> None:
    text = (
        "from transformers.utils import is_here, is_gone, logging\nfrom transformers.new import X\n"
    )
    fork = read_file(make_source(text, "fork.py"))
    assert lacking_imports(fork, root) == ["transformers.utils.is_gone", "transformers.new.X"]
