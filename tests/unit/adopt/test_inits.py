"""What a modular file says below `super().__init__()` to make another `__init__` of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from patchgen.author.adopt.inits import Changes, find_changes

PARENT = "self.up = up()\nself.gate = gate()\nself.act = silu\n"
# What is wanted; what stands above the call, goes, takes the parent's place, and follows.
CASES: dict[str, tuple[str, list[str], list[str], list[str], list[str]]] = {
    "nothing": (PARENT, [], [], [], []),
    "another value": (
        "self.up = up()\nself.gate = gate()\nself.act = gelu\n",
        [],
        [],
        ["self.act = gelu"],
        [],
    ),
    "one less": ("self.up = up()\nself.act = silu\n", [], ["self.gate"], [], []),
    "one more at the end": (PARENT + "self.drop = drop()\n", [], [], [], ["self.drop = drop()"]),
    # What stands behind it has to follow it.
    "one more before the last": (
        "self.up = up()\nself.gate = gate()\nself.drop = drop()\nself.act = silu\n",
        [],
        ["self.act"],
        [],
        ["self.drop = drop()", "self.act = silu"],
    ),
    "one more at the top": ("check(config)\n" + PARENT, ["check(config)"], [], [], []),
    # What stands before it has to stand above the call too.
    "one more behind the first": (
        "self.up = up()\nself.drop = drop()\nself.gate = gate()\nself.act = silu\n",
        ["self.up = up()", "self.drop = drop()"],
        ["self.up"],
        [],
        [],
    ),
    "another order": (
        "self.up = up()\nself.act = silu\nself.gate = gate()\n",
        [],
        ["self.gate"],
        [],
        ["self.gate = gate()"],
    ),
    "an annotation": (
        "self.up: nn.Linear = down()\nself.gate = gate()\nself.act = silu\n",
        [],
        [],
        ["self.up: nn.Linear = down()"],
        [],
    ),
}


@pytest.mark.parametrize("wanted, above, removed, replacing, further", CASES.values(), ids=CASES)
def test_changes(
    wanted: str, above: list[str], removed: list[str], replacing: list[str], further: list[str]
) -> None:
    found = find_changes(ast.parse(wanted).body, ast.parse(PARENT).body)
    assert found is not None
    assert (_texts(found.above), [*found.removed]) == (above, removed)
    assert (_texts(found.replacing), _texts(found.further)) == (replacing, further)


def test_the_parents_first_call_of_super_stays_above_what_is_new() -> None:
    init = "super().__init__()\n"
    found = find_changes(
        ast.parse(f"{init}check(config)\n{PARENT}").body, ast.parse(init + PARENT).body
    )
    assert found is not None
    assert (_texts(found.above), found.length) == (["check(config)"], 1)


def test_a_statement_without_a_target_cannot_go() -> None:
    parent = ast.parse("check(config)\n" + PARENT).body
    assert find_changes(ast.parse(PARENT).body, parent) is None


def test_an_assignment_with_an_annotation_is_not_replaced_but_written_again() -> None:
    parent = ast.parse("self.up: nn.Linear = up()\n").body
    wanted = ast.parse("self.up = other()\n").body
    assert find_changes(wanted, parent) == Changes((), ("self.up",), (), tuple(wanted))


def test_an_assignment_that_is_made_twice_is_not_replaced_but_written_again() -> None:
    parent = ast.parse("self.up = up()\nself.up = wrap(self.up)\n").body
    wanted = ast.parse("self.up = other()\nself.up = wrap(self.up)\n").body
    assert find_changes(wanted, parent) == Changes((), ("self.up",), (), tuple(wanted))


def _texts(nodes: Sequence[ast.stmt]) -> list[str]:
    return [*map(ast.unparse, nodes)]
