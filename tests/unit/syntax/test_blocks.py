"""Blocks: a file splits into top-level statements without loss."""

from __future__ import annotations

import pytest

from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.text import make_source

TEXT = '''"""A module."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# Above the class.
@decorate
class Model(Base):
    size: Tensor = None


try:
    import fast
except ImportError:
    fast = None
LIMIT = 3; DEPTH = 4
# The end.
'''


def index_of(text: str) -> ModuleIndex:
    return index(make_source(text, "toy.py", "toy"))


def test_blocks_and_tail_are_the_whole_text() -> None:
    found = index_of(TEXT)
    assert "".join(block.leading + block.text for block in found.blocks) + found.tail == TEXT


def test_kinds() -> None:
    kinds = [block.kind for block in index_of(TEXT).blocks]
    assert kinds == ["doc", "import", "guard", "class", "guard", "other"]


def test_a_class_begins_with_its_decorator_and_knows_its_bases() -> None:
    model = index_of(TEXT).definition("Model")
    assert model is not None
    assert model.text.startswith("@decorate\n")
    assert model.leading == "\n# Above the class.\n"
    assert model.bases == ("Base",)


def test_a_name_under_type_checking_counts_where_no_other_binds_it() -> None:
    found = index_of(TEXT)
    assert [block.is_for_types for block in found.binders("Tensor")] == [True]
    both = index_of(TEXT + "Tensor = object\n")
    assert [block.kind for block in both.binders("Tensor")] == ["assign"]


def test_an_else_branch_runs() -> None:
    text = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\n"
    (block,) = index_of(text).blocks
    assert block.is_guarded and not block.is_for_types


@pytest.mark.parametrize(
    ("text", "exports"),
    [
        ("x = 1", None),
        ("__all__ = ['a', 'b']", ("a", "b")),
        ("__all__ = ['a']\n__all__ += ['b']", ("a", "b")),
        ("__all__ = ['a']\n__all__.append('b')", ("a", "b")),
        ("__all__ = ['a', 'b']\n__all__.remove('a')", ("b",)),
    ],
)
def test_exports(text: str, exports: tuple[str, ...] | None) -> None:
    assert index_of(text).exports == exports


def test_exports_that_are_computed_are_named() -> None:
    unread = index_of("__all__ = ['a'] + other.names\n").unread_exports
    assert unread is not None and unread.first == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b", ("a.b", 0, "", "a", True)),
        ("import a.b as c", ("a.b", 0, "", "c", False)),
        ("from ..a import b as c", ("a", 2, "b", "c", False)),
    ],
)
def test_imports(text: str, expected: tuple[str, int, str, str, bool]) -> None:
    (item,) = index_of(text).blocks[0].imports
    assert (item.module, item.level, item.name, item.bound, item.binds_package) == expected
