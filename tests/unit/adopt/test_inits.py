"""What a modular file says below `super().__init__()` to make another `__init__` of it."""

from __future__ import annotations

import ast

import pytest

from patchgen.author.adopt.inits import find_changes

PARENT = "self.up = up()\nself.gate = gate()\nself.act = silu\n"
CASES = {
    "nothing": (PARENT, [], []),
    "another value": (
        "self.up = up()\nself.gate = gate()\nself.act = gelu\n",
        [],
        ["self.act = gelu"],
    ),
    "one less": ("self.up = up()\nself.act = silu\n", ["self.gate"], []),
    "one more at the end": (PARENT + "self.drop = drop()\n", [], ["self.drop = drop()"]),
    # What stands behind it has to follow it.
    "one more before the last": (
        "self.up = up()\nself.gate = gate()\nself.drop = drop()\nself.act = silu\n",
        ["self.act"],
        ["self.drop = drop()", "self.act = silu"],
    ),
    "another order": (
        "self.up = up()\nself.act = silu\nself.gate = gate()\n",
        ["self.gate"],
        ["self.gate = gate()"],
    ),
}


@pytest.mark.parametrize("wanted, removed, written", CASES.values(), ids=CASES)
def test_changes(wanted: str, removed: list[str], written: list[str]) -> None:
    found = find_changes(ast.parse(wanted).body, ast.parse(PARENT).body)
    assert found is not None
    assert (found[0], [ast.unparse(node) for node in found[1]]) == (removed, written)


def test_a_statement_without_a_target_cannot_go() -> None:
    parent = ast.parse("check(config)\n" + PARENT).body
    assert find_changes(ast.parse(PARENT).body, parent) is None


def test_an_assignment_that_is_made_twice_is_not_replaced_but_written_again() -> None:
    parent = ast.parse("self.up = up()\nself.up = wrap(self.up)\n").body
    wanted = ast.parse("self.up = other()\nself.up = wrap(self.up)\n").body
    assert find_changes(wanted, parent) == (["self.up"], wanted)
