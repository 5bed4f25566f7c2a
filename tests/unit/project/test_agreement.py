"""`check` is content if and only if `convert` has nothing to write: a CI may run either one."""

import io
import json
import sys

import pytest

import patchgen
from patchgen.cli import main
from tests.toytree import recorded_otherwise, toy_project

MODULAR, PARENT = "modular/v1/modular_v1.py", "lib/toy/modeling_toy.py"
OUTPUT = "generated/v1/modeling_v1.py"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A converted project of two variants: the first overrides B.g, the second A.f.  The core is the real one."""
    tree = toy_project(tmp_path / "proj")
    monkeypatch.chdir(tree.top)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    assert main(["convert", "-q"]) == 0
    return tree


def without_records(tree):
    lock = json.loads(tree.read("patchgen.lock"))
    tree.write("patchgen.lock", json.dumps({key: lock[key] for key in ("about", "format")}))


# What changes nothing in an output.
SAME = {
    "nothing": lambda tree: None,
    "a docstring of the module": lambda tree: tree.write(
        MODULAR, '"""Why."""\n' + tree.read(MODULAR)
    ),
    "the release of a tool": lambda tree: recorded_otherwise(tree, "ruff 0.14.10", "ruff 0.1.2"),
    "a setting that does not matter": lambda tree: tree.edit(
        "pyproject.toml", "flatten", "line-length = 118\nflatten"
    ),
    "the lock laid out otherwise": lambda tree: tree.write(
        "patchgen.lock",
        json.dumps(json.loads(tree.read("patchgen.lock")), indent=4, sort_keys=True),
    ),
}
# What changes one.
OTHER = {
    "the modular file": lambda tree: tree.edit(MODULAR, "return 1", "return 3"),
    "a comment above": lambda tree: tree.write(MODULAR, "# why\n\n" + tree.read(MODULAR)),
    "the parent": lambda tree: tree.edit(PARENT, "math.sqrt(x)", "math.sqrt(2 * x)"),
    "another definition of the parent, above": lambda tree: tree.edit(
        PARENT, "class A:", "X = 1\n\n\nclass A:"
    ),
    "an output": lambda tree: tree.edit(OUTPUT, "return 1", "return 3"),
    "a diff": lambda tree: tree("generated/v1/modeling_v1.diff").unlink(),
    "the lock gone": lambda tree: tree("patchgen.lock").unlink(),
    "a record": lambda tree: tree.edit("patchgen.lock", "ruff 0.14.10", "ruff 0.1.2"),
    "a key of the lock": lambda tree: tree.edit(
        "patchgen.lock", '"format": 3', '"format": 3, "more": 2'
    ),
}


# The same for a new model, which has of the parent what it reaches: its A but for f, and nothing else.
NEW = """from toy import modeling_toy as toy


class NewA(toy.A):
    def f(self):
        return 1
"""
SAME_OF_NEW = {
    "the parent elsewhere, below": lambda tree: tree.edit(
        PARENT, "return A().f()", "return A().f() + 1"
    ),
    "the parent elsewhere, above": lambda tree: tree.edit(
        PARENT, "class A:", "def more():\n    pass\n\n\nclass A:"
    ),
    "a comment of the parent, above": lambda tree: tree.edit(
        PARENT, "def helper", "# which helps\ndef helper"
    ),
}
OTHER_OF_NEW = {
    "the parent": lambda tree: tree.edit(PARENT, "    def f(self)", "    x = 1\n\n    def f(self)"),
    "the modular file": lambda tree: tree.edit(MODULAR, "return 1", "return 3"),
}


def cases(same, other):
    named = [(name, change, True) for name, change in same.items()]
    named += [(name, change, False) for name, change in other.items()]
    return pytest.mark.parametrize(
        ("change", "same"), [pytest.param(c, s, id=name) for name, c, s in named]
    )


def require_agreement(tree, change, same):
    change(tree)
    before = tree.snapshot()
    assert main(["check", "-q"]) == (0 if same else 1)
    assert tree.snapshot() == before
    assert main(["convert", "-q"]) == 0
    assert (tree.snapshot() == before) == same
    assert main(["check", "-q"]) == 0


@cases(SAME, OTHER)
def test_check_and_convert_agree(change, same, tree):
    require_agreement(tree, change, same)


@cases(SAME_OF_NEW, OTHER_OF_NEW)
def test_check_and_convert_agree_on_a_new_model(change, same, tree):
    tree("modular/v2/modular_v2.py").unlink()
    tree.write(MODULAR, NEW)
    assert main(["check", "--fix", "-q"]) == 0
    require_agreement(tree, change, same)


def test_a_line_is_found_where_it_stands_now(tree, capsys):
    """The record is that of the first conversion; the modular file has moved on by two lines."""
    tree.write(MODULAR, '"""Why,\nat length."""\n' + tree.read(MODULAR))
    line = tree.read(OUTPUT).split("\n").index("        return 1") + 1
    assert main(["explain", f"{OUTPUT}:{line}"]) == 0
    assert capsys.readouterr() == (
        f"{OUTPUT}:{line} comes from {MODULAR}:8:1\n            return 1\n",
        "",
    )


def test_a_line_of_the_parent_is_found_and_one_of_patchgen_is_not(tree, capsys):
    lines = tree.read(OUTPUT).split("\n")
    inherited = next(line for line in lines if "math.sqrt(x)" in line)
    place = tree.read(PARENT).split("\n").index(inherited) + 1
    assert main(["explain", f"{OUTPUT}:{lines.index(inherited) + 1}"]) == 0
    assert (
        f" comes from toy/modeling_toy.py:{place}:1\n    {inherited}\n" in capsys.readouterr().out
    )
    assert main(["explain", f"{OUTPUT}:1"]) == 0
    assert "a blank line, or written by patchgen itself" in capsys.readouterr().out


def test_a_line_of_what_is_stale_is_not_explained(tree, capsys):
    line = tree.read(OUTPUT).split("\n").index("        return 1") + 1
    tree.edit(MODULAR, "return 1", "return 3")
    assert main(["explain", f"{OUTPUT}:{line}"]) == 1
    why = f"{MODULAR} does not give it now; `patchgen convert` writes it anew"
    assert capsys.readouterr() == ("", f"Error: {OUTPUT}: {why}\n")


TRACEBACK = """Traceback (most recent call last):
  File "{elsewhere}", line 3, in <module>
  File "{output}", line {line}, in f
    return 1
ValueError: no
"""


def test_a_traceback_is_explained(tree, capsys, monkeypatch):
    line = tree.read(OUTPUT).split("\n").index("        return 1") + 1
    text = TRACEBACK.format(elsewhere=tree("lib/toy.py"), output=tree(OUTPUT), line=line)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["explain", "-"]) == 0
    expected = text.replace("in f\n", f"in f\n      made from {MODULAR}:6\n")
    assert capsys.readouterr() == (expected, "")


def test_an_uncaught_error_is_explained(tree, capsys, monkeypatch):
    monkeypatch.setattr("sys.excepthook", sys.excepthook)
    tree.edit(OUTPUT, "return 1", "return 1 / 0")
    line = tree.read(OUTPUT).split("\n").index("        return 1 / 0") + 1
    patchgen.explain_tracebacks()
    code = compile("\n" * (line - 1) + "1 / 0", str(tree(OUTPUT)), "exec")
    try:
        exec(code)
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    said = capsys.readouterr().err
    assert f"not known: {OUTPUT}: it was edited by hand" in said
    assert said.endswith("ZeroDivisionError: division by zero\n")


def reason(tree, capsys):
    """Why the one stale output is stale."""
    assert main(["check"]) == 1
    return capsys.readouterr().out.split("\n")[0].partition("is stale: ")[2]
