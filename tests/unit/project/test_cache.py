"""What is remembered is believed while everything that it was made from is the same, and no longer."""

import os
import shutil

import pytest

from patchgen.project import outcome
from tests import standin


@pytest.fixture
def flattened(tree, cli, monkeypatch):
    """The project, converted; and the names of the modular files that the core has been asked for since."""
    seen = []

    def flatten(path, env, settings):
        seen.append(path.stem)
        return standin.stand_in(path, env, settings)

    monkeypatch.setattr("patchgen.compiler.flatten.make_draft", standin.as_draft(flatten))
    assert cli("convert")[0] == 0
    seen.clear()
    return seen


def test_noop_nothing_is_flattened_again(flattened, cli):
    cli("lint")  # which looks for more than `convert`, and remembers it apart
    flattened.clear()
    for argv in (["check"], ["convert"], ["list"], ["diff"], ["lint"]):
        cli(*argv)
    assert flattened == []


@pytest.mark.parametrize(
    "name, old, new, expected",
    [
        ("modular/one/modular_one.py", "x = 3", "x = 4", {"modular_one"}),
        ("lib/toy.py", "y = 2", "y = 5", {"modular_one", "modular_two"}),
        (
            "pyproject.toml",
            "[tool.patchgen]",
            "[tool.patchgen]\nline-length = 90",
            {"modular_one", "modular_two"},
        ),
        (
            "pyproject.toml",
            'roots = ["lib"]',
            'roots = ["lib", "modular"]',
            {"modular_one", "modular_two"},
        ),
    ],
)
def test_a_change_of(name, old, new, expected, tree, flattened, cli):
    tree.edit(name, old, new)
    cli("check", "-q")
    assert set(flattened) == expected


@pytest.mark.parametrize(
    "what", ["patchgen.project.cache.own_digest", "patchgen.project.cache.tool_versions"]
)
def test_other_code_or_other_releases(what, flattened, cli, monkeypatch):
    monkeypatch.setattr(what, lambda: "other")
    cli("check")
    assert set(flattened) == {"modular_one", "modular_two"}


def test_entries_do_not_pile_up(tree, flattened, cli):
    before = len(list((tree.state / "outcomes").iterdir()))
    for value in range(5):
        tree.write("modular/one/modular_one.py", f"from toy import A\nx = {value}\n")
        cli("check")
    assert len(list((tree.state / "outcomes").iterdir())) == before == 2


def test_a_file_that_changes_while_it_is_flattened_is_not_remembered(
    tree, flattened, cli, monkeypatch
):
    def flatten(path, env, settings):
        result = standin.stand_in(path, env, settings)
        tree.write("lib/toy.py", standin.PARENT.replace("y = 2", "y = 6"))
        return result

    tree.edit("modular/two/modular_two.py", "y = 4", "y = 5")
    with monkeypatch.context() as during:
        during.setattr("patchgen.compiler.flatten.make_draft", standin.as_draft(flatten))
        cli("check", "modular/two")
    flattened.clear()
    cli("check", "modular/two")
    assert "modular_two" in flattened


@pytest.fixture
def reads(tmp_path, monkeypatch):
    """A file that holds "old", and the contents that `digest_of_file` has read."""
    path, seen, real = tmp_path / "file", [], outcome.digest_of_bytes
    path.write_text("old")
    monkeypatch.setattr(outcome, "digest_of_bytes", lambda data: seen.append(data) or real(data))
    return path, seen


def later(monkeypatch):
    """The run goes on when all that was written is old."""
    monkeypatch.setattr(outcome, "TICK", -60 * 10**9)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.write_text("longer"), id="in place"),
        pytest.param(
            lambda path: shutil.copy(path, path.with_name("other")).replace(path),
            id="replaced by a copy",
        ),
        pytest.param(lambda path: os.utime(path, ns=(1, 1)), id="its time set back"),
    ],
)
def test_a_file_that_changed_is_read_again(change, reads, monkeypatch):
    path, seen = reads
    later(monkeypatch)
    outcome.digest_of_file(path)
    change(path)
    outcome.digest_of_file(path)
    assert seen == [b"old", path.read_bytes()]


STAR = {
    "lib/toy/a.py": "X = 1\n",
    "lib/toy/b.py": "def act():\n    return 'b'\n",
    "lib/toy/names.py": "from .a import *\nfrom .b import *\n",
    "lib/toy/modeling_toy.py": "from .names import act\n\n\nclass A:\n    f = lambda self: act()\n",
    "modular/v1/modular_v1.py": "from toy import modeling_toy as toy\n\n\nclass A(toy.A):\n    n = 1\n",
}
CHANGES = {
    "behind a star": ("lib/toy/a.py", "X = 1\n", "X = 1\n\n\ndef act():\n    return 'a'\n"),
    "behind the last star": ("lib/toy/b.py", "'b'", "'c'"),
    "a file that appears": ("lib/toy/c.py", "", "def act():\n    return 'c'\n"),
    "a package that appears": ("lib/toy/b/__init__.py", "", "def act():\n    return 'c'\n"),
    "a module above it": ("toy/__init__.py", "", ""),
    "a folder that makes an import the project's own": ("math/__init__.py", "", ""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_cache_and_no_cache_say_the_same(what, tmp_path, monkeypatch, capsys):
    """With the real core: whatever is asked of the file system is known to depend on it."""
    from patchgen.cli import main
    from tests.toytree import toy_project

    tree = toy_project(tmp_path / "real", variants=1)
    for name, text in STAR.items():
        tree.write(name, text)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    assert main(["check", "-q"]) == 0
    name, old, new = CHANGES[what]
    tree.edit(name, old, new) if old else tree.write(name, new)
    capsys.readouterr()
    cached = main(["check"]), capsys.readouterr().out
    assert cached == (main(["check", "--no-cache"]), capsys.readouterr().out)
