"""Small questions about code: exports, forward references, sameness, names of definitions."""

import ast

import pytest

from patchgen.syntax.annotations import quoted_annotations
from patchgen.syntax.exports import is_list_of_strings
from patchgen.syntax.same import says_same


@pytest.mark.parametrize(
    ("text", "is_written_out"),
    [('__all__ = ["a"]', True), ("__all__ += other.__all__", False), ("__all__ = names()", False)],
)
def test_exports_that_are_written_out(text, is_written_out):
    assert is_list_of_strings(text) == is_written_out


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        ('"list[Cache]"', ["list[Cache]"]),
        ('list["Cache"] | None', ["Cache"]),
        ('Literal["left", "right"]', []),
        ('Annotated["Cache", "the cache of a layer"]', ["Cache"]),
        ('"not an expression"', []),
    ],
)
def test_forward_references(annotation, found):
    node = ast.parse(annotation, mode="eval").body
    assert [each.value for each in quoted_annotations(node)] == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("def f(x: int): return x", "def f(x):\n    '''Doc.'''\n    return x", True),
        ("@auto_docstring\nclass A: pass", "class A: pass", True),
        ("@dataclass\nclass A: pass", "class A: pass", False),
        ("x = 1", "x = 2", False),
        ("class A:\n    pass\n    x = 1", "class A:\n    x = 1", True),
    ],
)
def test_code_that_says_the_same(one, other, same):
    assert says_same(one, other) == same
