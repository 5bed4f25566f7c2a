"""Names of releases up to 4.49, whose packages list what they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.author.resolve import resolver_of
from patchgen.rescuing.sources import Sources
from tests.toytree import Tree

MODULE = "transformers.models.toy.modeling_toy"
LAZY = """from typing import TYPE_CHECKING

_import_structure = {{"{module}": ["ToyModel"]}}

if TYPE_CHECKING:
    from .{module} import ToyModel
else:
    import sys

    sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], _import_structure)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A release with one model."""
    tree = Tree(tmp_path)
    tree.write("transformers/__init__.py", LAZY.format(module="models.toy"))
    tree.write("transformers/models/__init__.py", "from . import (\n    toy,\n)\n")
    tree.write("transformers/models/toy/__init__.py", LAZY.format(module="modeling_toy"))
    model = "class ToyModel:\n    def forward(self):\n        pass\n"
    tree.write("transformers/models/toy/modeling_toy.py", model)
    return tmp_path


@pytest.mark.parametrize("package", [MODULE, "transformers.models.toy", "transformers"])
def test_a_name_is_found_by_each_package_that_offers_it(package: str, root: Path) -> None:
    assert resolver_of(root).locate(f"{package}.ToyModel.forward") == (
        MODULE,
        ("ToyModel", "forward"),
    )
    found = Sources(root, "4.46").find(package, "ToyModel")
    assert found is not None and found[0].name == MODULE
