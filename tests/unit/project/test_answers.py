"""What is kept of texts between runs says what making it anew would say, and saves the work."""

import shutil

import pytest

from patchgen import children
from patchgen.cli import main
from tests.toytree import toy_project

PARENT = {
    "lib/toy/base.py": "class Root:\n    def g(self):\n        return 'root'\n",
    "lib/toy/tools.py": "def act():\n    return 'act'\n",
    "lib/toy/modeling_toy.py": """from .base import Root
from .tools import act

SIZE = 3


class Middle(Root):
    def h(self):
        return SIZE


class A(Middle):
    def f(self, x):
        y = act()
        return x * SIZE + 1
""",
    "modular/v1/modular_v1.py": """from patchgen.edits import edit, new, old

from toy import modeling_toy as toy


class A(toy.A):
    @edit("f")
    def twice(self, x):
        with old:
            x * toy.SIZE
        with new:
            2 * x * toy.SIZE
""",
}
MODELING, MODULAR = "lib/toy/modeling_toy.py", "modular/v1/modular_v1.py"
CHANGES = {
    "the edited method": (MODELING, "x * SIZE + 1", "x * SIZE + 2"),
    "the matched expression": (MODELING, "x * SIZE", "x + SIZE"),
    "a name that the method binds": (MODELING, "y = act()", "SIZE = act()"),
    "a statement that is carried": (MODELING, "SIZE = 3", "SIZE = 4"),
    "a line above everything": (MODELING, "SIZE = 3", "# how much\n\nSIZE = 3"),
    "a helper": (MODELING, "SIZE = 3", "SIZE = _own()\n\n\ndef _own():\n    return 3"),
    "a class of another file": ("lib/toy/base.py", "'root'", "'stem'"),
    "behind the import": ("lib/toy/tools.py", "'act'", "'do'"),
    "what the import brings": ("lib/toy/tools.py", "def act", "def do"),
    "a parameter that calls miss": (MODELING, "def h(self):", "def h(self, z=None):"),
    "the edit": (MODULAR, "2 * x", "3 * x"),
    "a hole in it": (MODULAR, "def twice(self, x):", "def twice(self, x, toy):"),
    "the formatter's line length": ("pyproject.toml", "flatten", "line-length = 20\nflatten"),
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A project that was converted, so that there are answers."""
    tree = toy_project(tmp_path / "project", variants=0)
    for name, text in PARENT.items():
        tree.write(name, text)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    return tree


@pytest.mark.parametrize("what", CHANGES)
def test_the_answers_and_no_cache_say_the_same(what, tree, capsys):
    name, old, new = CHANGES[what]
    tree.edit(name, old, new)
    known = main(["check"]), capsys.readouterr().out
    assert known == (main(["check", "--no-cache"]), capsys.readouterr().out)


def test_nothing_is_made_again_for_a_second_release(tree, tmp_path, monkeypatch):
    shutil.copytree(tree("lib"), tmp_path / "release")
    changed = tmp_path / "release/toy/base.py"
    changed.write_text(changed.read_text() + "\n\nOTHER = 1\n")

    def refuse(*_, **__):
        raise AssertionError("made again")

    monkeypatch.setattr(children, "run", refuse)
    monkeypatch.setattr("patchgen.compiler.emit.checks.find_mistakes", refuse)
    monkeypatch.setattr("patchgen.project.outcome.unified", refuse)
    assert main(["check", "-q", "--package-root", str(tmp_path / "release")]) == 0
    assert main(["check", "-q", "--no-cache"]) == 2


def answers_of(tree):
    """The only file of answers."""
    (path,) = (tree.state / "answers").iterdir()
    return path


def forget_outcomes(tree):
    shutil.rmtree(tree.state / "outcomes")


@pytest.mark.parametrize("old, new", [(b"2 * x", b"9 * x"), (b"class A", b"class Z"), (b"}", b"")])
def test_answers_that_somebody_edited_are_not_believed(old, new, tree):
    data = answers_of(tree).read_bytes()
    assert old in data
    answers_of(tree).write_bytes(data.replace(old, new))
    forget_outcomes(tree)
    assert main(["check", "-q"]) == 0
    assert answers_of(tree).read_bytes() == data


@pytest.mark.parametrize("what", ["own_digest", "tool_versions", "ruff_state", "FORMAT"])
def test_answers_of_other_tools_are_not_believed(what, tree, monkeypatch):
    before = answers_of(tree).read_bytes()
    value = 0 if what == "FORMAT" else lambda: "other"
    forget_outcomes(tree)
    monkeypatch.setattr(f"patchgen.project.cache.{what}", value)
    made = []
    real = children.run
    monkeypatch.setattr(children, "run", lambda *a, **k: made.append(a) or real(*a, **k))
    assert main(["check", "-q"]) == 0
    assert made
    assert answers_of(tree).read_bytes() != before


def test_a_folder_that_cannot_be_written_stores_nothing(tree):
    shutil.rmtree(tree.state / "answers")
    (tree.state / "answers").write_text("a file\n")
    forget_outcomes(tree)
    assert main(["check", "-q"]) == 0
