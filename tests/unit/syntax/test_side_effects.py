"""Side effects: which names a statement may change when it runs, and which it calls."""

import pytest

from patchgen.syntax.side_effects import read_call_effects, read_import_effects


def named(text, places):
    lines = text.split("\n")
    found = []
    for line, column in sorted(places):
        rest = lines[line - 1][column:]
        found.append(
            rest[: next((i for i, c in enumerate(rest) if not c.isidentifier()), len(rest))]
        )
    return found


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("TABLE['a'] = 1", ["TABLE"]),
        ("SPACE.a.b['k'] = 1", ["SPACE"]),
        ("del TABLE['a']", ["TABLE"]),
        ("VIEW += [2]", ["VIEW"]),
        ("LOG.append(1)", ["LOG"]),
        ("for TABLE['k'] in range(3): pass", ["TABLE"]),
        ("def f(): TABLE['a'] = 1", []),
        ("f = lambda: TABLE.pop()", []),
    ],
)
def test_what_is_changed_at_import(text, changed):
    assert named(text, read_import_effects(text).changed) == changed


def test_bodies_of_functions_count_when_they_are_called():
    text = "def f(): TABLE['a'] = 1"
    assert named(text, read_call_effects(text).changed) == ["TABLE"]


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("@register\ndef f(): g()", ["register"]),
        ("def f(x=note(1)): pass", ["note"]),
        ("def f(x: note('x')): pass", ["note"]),
        ("x: note('x') = 1", ["note"]),
        ("class A:\n    x = note(1)", ["note"]),
        ("list(map(lambda f: put(f), [1]))", ["list", "map", "put"]),
    ],
)
def test_what_is_called_at_import(text, called):
    found = named(text, read_import_effects(text).called)
    assert [name for name in called if name not in found] == []


@pytest.mark.parametrize(
    ("text", "used"),
    [("V = BOX[3]", ["BOX"]), ("V = BOX | 1", ["BOX"]), ("V = BOX.last", ["BOX"]), ("V = BOX", [])],
)
def test_operands_are_used(text, used):
    assert named(text, read_import_effects(text).used) == used
