"""Small questions about code: exports, forward references, sameness, names of definitions."""

import ast

import pytest

from patchgen.syntax.annotations import quoted_annotations
from patchgen.syntax.exports import is_list_of_strings, read_exports
from patchgen.syntax.same import is_documenting, is_same_code, says_same


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (['__all__ = ["a", "b"]'], ("a", "b")),
        (['__all__ = ["a"]', '__all__ += ["b"]'], ("a", "b")),
        (['__all__ = ["a", "b"]', '__all__.remove("a")'], ("b",)),
        (['__all__ = ["a"]', '__all__ = ["b"]'], ("b",)),
    ],
)
def test_exports_after_all_statements(texts, names):
    assert read_exports(tuple(texts)) == names


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


def test_positions_do_not_count():
    assert is_same_code(ast.parse("x=1"), ast.parse("\n\nx = (1)"))
    assert not is_same_code(ast.parse("x = 1"), ast.parse("x = 1.0"))


def test_documenting_decorators():
    assert is_documenting(ast.parse("auto_docstring(x)", mode="eval").body)
    assert not is_documenting(ast.parse("torch.no_grad()", mode="eval").body)
