"""What the questions about trees answer that several packages ask."""

from __future__ import annotations

import ast

import pytest

from patchgen.syntax.trees import (
    global_names,
    sets_attributes,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    global a, b", {"a", "b"}),
        ("class C:\n    def f(self):\n        global a", {"a"}),
        ("def f():\n    nonlocal_ = 1", set()),
    ],
)
def test_global_names_are_found_at_any_depth(text: str, expected: set[str]) -> None:
    assert global_names(ast.parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Base.x = 1", True),
        ("del Base.x", True),
        ("for Base.x in (1, 2): ...", True),
        ("setattr(Base, 'x', 1)", True),
        ("x = Base.y", False),
        ("Base['x'] = 1", False),
        ("Base.update(x=1)", False),
    ],
)
def test_attributes_are_set_or_only_read(text: str, expected: bool) -> None:
    assert sets_attributes(ast.parse(text)) is expected
