"""What the questions about trees answer that several packages ask."""

from __future__ import annotations

import ast

import pytest

from patchgen.syntax.trees import (
    decorator_names,
    find_class,
    global_names,
    list_arguments,
    sets_attributes,
    walk,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@staticmethod\ndef f(): ...", {"staticmethod"}),
        ("@a\n@b\nclass C: ...", {"a", "b"}),
        # What is reached by a module or called has no plain name.
        ("@abc.abstractmethod\n@cache(1)\ndef f(): ...", set()),
        ("lambda x: x", set()),
    ],
)
def test_decorators_count_by_plain_names_only(text: str, expected: set[str]) -> None:
    node: ast.AST = ast.parse(text).body[0]
    if isinstance(node, ast.Expr):
        node = node.value
    assert decorator_names(node) == expected


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


def test_arguments_are_listed_by_position_and_then_by_name() -> None:
    call = ast.parse("f(a, *b, c=d, **e)", mode="eval").body
    assert isinstance(call, ast.Call)
    assert [ast.unparse(argument) for argument in list_arguments(call)] == ["a", "*b", "d", "e"]


def test_a_class_is_found_at_the_top_only() -> None:
    text = "class A:\n    class B: ...\nB = A.B\n"
    found = find_class(text, "A")
    assert found is not None and found.lineno == 1
    assert find_class(text, "B") is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{**a, 'b': c}", id="a key that is not written"),
        pytest.param("def f(a, /, b=1, *c, d, e=2, **g): ...", id="a default that is not written"),
        pytest.param("def f():\n    global a\n    nonlocal b", id="names"),
        pytest.param("match a:\n    case B(c, d=e): ...", id="names of attributes"),
        pytest.param("match a:\n    case {'b': [c, *d], **e}: ...", id="patterns"),
        pytest.param("x: int = y[a:b, ::c]\nfor z in not -x < 1: del z", id="operators"),
        pytest.param("with a as b, c: f(*d, e=f'{g!r:{h}}')", id="calls"),
        pytest.param("try: ...\nexcept A as a: raise B from a\nelse: ...", id="handlers"),
    ],
)
def test_a_walk_meets_all_nodes_but_contexts_and_operators(text: str) -> None:
    tree = ast.parse(text)
    left_out = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    assert list(walk(tree)) == [node for node in ast.walk(tree) if not isinstance(node, left_out)]
