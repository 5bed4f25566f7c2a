"""Blocks: a file splits into top-level statements without loss."""

from __future__ import annotations

import pytest

from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.text import make_source


def index_of(text: str) -> ModuleIndex:
    return index(make_source(text, "toy.py", "toy"))


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
