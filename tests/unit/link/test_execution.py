"""Which modules an import statement runs, and in which order."""

import pytest

from patchgen.compiler.link.execution import executed_modules, is_followed, with_packages
from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.flatten_scope import FlattenScope
from patchgen.syntax.locate import make_environment


@pytest.fixture
def bindings(tmp_path):
    inner = tmp_path / "own" / "parts"
    inner.mkdir(parents=True)
    (tmp_path / "own" / "__init__.py").touch()
    (inner / "__init__.py").write_text("from .table import TABLE\n")
    (inner / "table.py").write_text("TABLE = {}\n")
    (inner / "wide.py").write_text("from .table import TABLE\n")
    return Bindings(make_environment(tmp_path), FlattenScope("own"))


@pytest.mark.parametrize(
    ("statement", "modules"),
    [
        ("import own.parts.wide", ["own", "own.parts", "own.parts.wide"]),
        ("from . import parts", ["own", "own.parts"]),
        ("from .parts import TABLE", ["own", "own.parts", "own.parts.table"]),
        (
            "from .parts.wide import TABLE",
            ["own", "own.parts", "own.parts.wide", "own.parts.table"],
        ),
        ("import os.path", []),
        ("if TYPE_CHECKING:\n    from . import parts", []),
    ],
)
def test_packages_run_before_what_is_in_them(tmp_path, bindings, statement, modules):
    (tmp_path / "own" / "toy.py").write_text(statement + "\n")
    index = bindings.env.index("own.toy", None)
    found = executed_modules(index, index.blocks[0], bindings)
    assert [module for module in found if is_followed(module, bindings)] == modules


def test_packages_of_a_module():
    assert list(with_packages("a.b.c")) == ["a", "a.b", "a.b.c"]
