"""Trees are shared, and texts of them are kept: nothing that lint does changes one."""

import ast

import pytest

from patchgen.upstream.lint.inherited import _without_copies
from patchgen.upstream.lint.normalize import dumped, rebuilt, with_fields
from patchgen.upstream.lint.super_calls import named_super

NAMED = """
class New(Old, Mixin):
    def __init__(self, x):
        Old.__init__(self, x)
        self.y = [Mixin.make(self, {"a": Old.__init__(self, 1)}), other.make(self)]
"""
COPIED = """
class New(Old):
    def forward(self, x):
        return self._forward_of_Old(x)

    @cached
    def _forward_of_Old(self, x):
        return self._forward_of_Older(x)

    def _forward_of_Older(self, x):
        return x + 1
"""


def class_of(text):
    return ast.parse(text).body[0]


@pytest.mark.parametrize(
    "text, work", [(NAMED, lambda n: named_super(n, ["Old", "Mixin"])), (COPIED, _without_copies)]
)
def test_a_tree_is_what_it_was(text, work):
    node = class_of(text)
    known = {id(inner): dumped(inner) for inner in ast.walk(node)}
    made = work(node)
    assert dumped(made) != dumped(node)
    assert all(ast.dump(inner) == known[id(inner)] for inner in ast.walk(node))
    assert all(dumped(inner) == ast.dump(inner) for inner in ast.walk(made))


def test_calls_by_name_are_super():
    body = ast.unparse(named_super(class_of(NAMED), ["Old", "Mixin"]).body[0])
    assert body.split("\n")[1:] == [
        "    super().__init__(x)",
        "    self.y = [super().make({'a': super().__init__(1)}), other.make(self)]",
    ]


def test_copies_of_copies_are_written_out():
    made = _without_copies(class_of(COPIED))
    assert (
        ast.unparse(made)
        == "class New(Old):\n\n    @cached\n    def forward(self, x):\n        return x + 1"
    )


def test_noop_what_has_no_change_is_the_same_object():
    node = class_of(NAMED)
    assert rebuilt(node, lambda inner: inner) is node
    assert named_super(node, ["Nobody"]) is node


def test_places_are_kept():
    node = class_of(NAMED)
    assert with_fields(node, name="Newer").lineno == node.lineno
    assert (
        rebuilt(node, lambda n: n if not isinstance(n, ast.Constant) else ast.Constant(7))
        .body[0]
        .lineno
        == 3
    )


def test_two_that_look_at_one_tree_say_the_same():
    """The first comparison named super() in the shipped tree; the second then took the old text for it."""
    shipped = class_of("class New(Old):\n    def f(self):\n        return Old.f(self)\n")
    before = dumped(shipped.body[0])
    first, second = (named_super(shipped, ["Old"]) for _ in range(2))
    assert dumped(first.body[0]) == dumped(second.body[0]) != before
