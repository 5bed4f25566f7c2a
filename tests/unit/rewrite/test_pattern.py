"""What a pattern fits, as a table: syntax counts, spelling does not."""

import ast

import pytest

from patchgen.rewrite.pattern import find_expressions, find_statements


def body(text):
    return ast.parse(text).body


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        pytest.param("f(x)", "y = f( x, )", 1, id="spaces and a trailing comma"),
        pytest.param("f('a')", 'y = (f("a"))', 1, id="quotes and parentheses"),
        pytest.param("f(1)", "y = f(1.0)", 0, id="an integer is no float"),
        pytest.param("f(1)", "y = f(True)", 0, id="one is not true"),
        pytest.param("f(x)", "y = f(x, 1)", 0, id="one argument more"),
        pytest.param("f(x, ...)", "y = f(x, 1, k=2)", 1, id="any further arguments"),
        pytest.param("f(..., 1)", "y = f(x, 1, k=2)", 1, id="any arguments before the last"),
        pytest.param("f(..., k=2)", "y = f(x, j=1, k=2)", 1, id="a keyword that must be there"),
        pytest.param("f(..., k=2)", "y = f(x, j=1)", 0, id="a keyword that is not there"),
        pytest.param("f(j=1, k=2)", "y = f(k=2, j=1)", 0, id="without dots the order counts"),
        pytest.param("HOLE + HOLE", "y = (a.b) + a.b", 1, id="a hole twice, equal"),
        pytest.param("HOLE + HOLE", "y = a.b + a.c", 0, id="a hole twice, different"),
        pytest.param("f(HOLE)", "y = f(f(x))", 2, id="inside a match as well"),
        pytest.param("x", "def g(): return [x for _ in y if x]", 2, id="in nested code"),
    ],
)
def test_expressions(pattern, code, expected):
    found = list(find_expressions(ast.parse(pattern, mode="eval").body, body(code), ["HOLE"]))
    assert len(found) == expected


@pytest.mark.parametrize(
    ("pattern", "code", "expected"),
    [
        pytest.param("a = 1\nb = 2", "a = 1\n\n# why\nb = 2\nc = 3", [(0, 2)], id="a run of statements"),
        pytest.param("a = 1\nb = 2", "a = 1\nc = 3\nb = 2", [], id="something in between"),
        pytest.param("a = 1\n...\nb = 2", "a = 1\nc = 3\nb = 2\nb = 2", [(0, 3)], id="the shortest run"),
        pytest.param("a = 1", "if x:\n    a = 1\nelse:\n    a = 1", [(0, 1), (0, 1)], id="in nested suites"),
        pytest.param("if x:\n    ...\n    a = 1", "if x:\n    b = 2\n    a = 1", [(0, 1)], id="dots inside"),
        pytest.param("if x:\n    a = 1", "if x:\n    a = 1\n    b = 2", [], id="a nested suite is matched whole"),
        pytest.param("HOLE = f(HOLE)", "self.x = f(self.x)", [(0, 1)], id="a hole assigned and read"),
        pytest.param("a: int = 1", "a = 1", [], id="an annotation counts"),
        pytest.param(
            "for i in x:\n    pass", "async def f():\n    async for i in x:\n        pass", [], id="async counts"
        ),
    ],
)
def test_statements(pattern, code, expected):
    found = list(find_statements(body(pattern), ast.Module(body(code), []), ["HOLE"]))
    assert [(match.start, match.stop) for match in found] == expected
