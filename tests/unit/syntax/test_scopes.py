"""Scopes: which reads of a statement are of global names, and what it binds."""

from __future__ import annotations

import ast

import pytest

from patchgen.syntax.bound import bound_names, local_names, names_in, parameters
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import find_name


def function(text: str) -> ast.FunctionDef:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("import a.b, c as d", ["a", "d"]),
        ("for x, (y, *z) in w: pass", ["x", "y", "z"]),
        ("with a as b: c = 1", ["b", "c"]),
        ("[(x := y) for y in z]", ["x"]),
        ("def f(a): b = 1", ["f"]),
        ("match v:\n    case {'k': [*x], **y}: pass", ["y", "x"]),
    ],
)
def test_bound_names(text: str, bound: list[str]) -> None:
    assert list(bound_names(ast.parse(text).body)) == bound


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a, b=c): return a + d", {"c", "d"}),
        ("class A(B):\n    x = y\n    def f(self): return x", {"B", "y", "x"}),
        ("x = [a for a in b if c]", {"b", "c"}),
        ("def f():\n    global x\n    return x", {"x"}),
        ("x: 'list[A]' = 1", {"list", "A"}),
    ],
)
def test_reads_of_global_names(text: str, expected: set[str]) -> None:
    assert {reference.name for reference in references(ast.parse(text).body)} == expected


def test_a_read_knows_its_attributes_and_when_it_is_evaluated() -> None:
    first, second = references(ast.parse("x = nn.init.zeros\ndef f(): return torch").body)
    assert (first.name, first.attributes, first.eager) == ("nn", ("init", "zeros"), True)
    assert (second.name, second.eager) == ("torch", False)


def test_names_of_a_function() -> None:
    node = function("def f(a, /, b, *c, d, **e):\n    global g\n    g = h = 1\n    i(a)")
    assert parameters(node) == ("a", "b", "c", "d", "e")
    assert local_names(node) == {"a", "b", "c", "d", "e", "h"}
    assert names_in([node]) == {"f", "a", "b", "c", "d", "e", "g", "h", "i"}


def test_the_name_of_a_definition_can_stand_on_the_next_line() -> None:
    text = "async def \\\n    forward(self): ...\n"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.AsyncFunctionDef)
    assert find_name(text.splitlines(keepends=True), node) == (2, 4, 11)
