"""What is remembered is believed while everything that it was made from is the same, and no longer."""

import os
import shutil
from dataclasses import replace

import pytest

from patchgen.cli.session import Request, open_session
from patchgen.project import outcome
from patchgen.project.cache import Cache
from tests import standin
from tests.toytree import Tree


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


SHARED = "lib/toy.py", "y = 2", "y = 5"


def test_what_one_command_made_is_not_made_again_by_the_next(tree, flattened, cli):
    """Of a tree that is stale: two modular files share the class that changed."""
    tree.edit(*SHARED)
    assert cli("check", "-q")[0] == 1
    assert set(flattened) == {"modular_one", "modular_two"}
    flattened.clear()
    cached = cli("check", "--diff")
    assert (cached[0], flattened) == (1, [])
    assert cached == cli("check", "--diff", "--no-cache")
    flattened.clear()
    assert cli("convert", "-q")[0] == 0
    assert flattened == []
    assert (cli("check", "-q")[0], cli("check", "-q", "--no-cache")[0]) == (0, 0)


def test_convert_from_the_cache_writes_and_records_what_it_writes_without(tree, flattened, cli):
    written = []
    for argv in (["convert"], ["convert", "--no-cache"]):
        shutil.rmtree(tree("generated"))
        tree("patchgen.lock").unlink()
        flattened.clear()
        assert cli(*argv)[0] == 0
        written.append(({name: tree.read(name) for name in tree.files()}, set(flattened)))
    (known, worked), (anew, _) = written
    assert (known, worked) == (anew, set())


def test_a_second_release_is_worked_once(tree, flattened, cli, tmp_path):
    shutil.copytree(tree("lib"), tmp_path / "release")
    other = tmp_path / "release/toy.py"
    other.write_text(other.read_text().replace("y = 2", "y = 5"))
    argv = ["check", "--package-root", str(other.parent)]
    first = cli(*argv)
    assert set(flattened) == {"modular_one", "modular_two"}
    flattened.clear()
    assert (cli("check", "-q")[0], cli(*argv), flattened) == (0, first, [])


def replaced(old, new):
    return lambda path, before: path.write_bytes(path.read_bytes().replace(old, new))


SPOILED = {
    "edited": replaced(b"y = 5", b"y = 7"),
    "cut off": lambda path, before: path.write_bytes(path.read_bytes()[:-9]),
    "gone": lambda path, before: path.unlink(),
    "of the parent as it was": lambda path, before: path.write_bytes(before),
}


@pytest.mark.parametrize("how", SPOILED)
def test_texts_that_are_not_those_of_the_outcome_are_made_again(how, tree, flattened, cli):
    before = {path: path.read_bytes() for path in (tree.state / "texts").iterdir()}
    tree.edit(*SHARED)
    cli("check", "-q")
    flattened.clear()
    for path in before:
        assert path.read_bytes() != before[path]
        SPOILED[how](path, before[path])
    assert cli("convert", "-q")[0] == 0
    assert flattened == ["modular_two"]  # the other one's output is right as it stands
    assert cli("check", "-q", "--no-cache")[0] == 0


def test_texts_with_a_seal_that_fits_have_the_digests_of_the_outcome(tree, flattened, cli):
    """What everybody can compute: the seal of another text for the same outcome."""
    tree.edit(*SHARED)
    cli("check", "-q")
    session = open_session(Request())
    cache = Cache(session.project, with_texts=True)
    for modular in session.selection.modulars:
        made = cache.load(modular)
        real = Cache(session.project).load(modular)
        cache.store(replace(made, texts=dict.fromkeys(made.texts, "import os\n")))
        assert Cache(session.project).load(modular) == real
        assert cache.load(modular) is None
    flattened.clear()
    assert cli("convert", "-q")[0] == 0
    assert flattened == ["modular_two"]  # the other one's output is right as it stands
    assert cli("check", "-q", "--no-cache")[0] == 0


@pytest.mark.parametrize(
    "what", ["patchgen.project.cache.own_digest", "patchgen.project.cache.tool_versions"]
)
def test_other_code_or_other_releases(what, flattened, cli, monkeypatch):
    monkeypatch.setattr(what, lambda: "other")
    cli("check")
    assert set(flattened) == {"modular_one", "modular_two"}


def test_entries_do_not_pile_up(tree, flattened, cli):
    for value in range(5):
        tree.write("modular/one/modular_one.py", f"from toy import A\nx = {value}\n")
        cli("check")
    for kind in ("outcomes", "texts"):
        assert len(list((tree.state / kind).iterdir())) == 2


def entries_of(*trees):
    folders = (tree.state / kind for tree in trees for kind in ("outcomes", "texts", "answers"))
    return {path for folder in folders if folder.is_dir() for path in folder.iterdir()}


def bytes_of(paths):
    return sum(path.stat().st_size for path in paths)


@pytest.fixture
def other(tree, flattened, cli, tmp_path, monkeypatch):
    """Another project, whose entries are older; beside it in the folder is what is no entry."""
    other = standin.standin_project(tmp_path / "other")
    monkeypatch.chdir(other.top)
    assert cli("convert", "-q")[0] == 0
    for age, path in enumerate(sorted(entries_of(other))):
        os.utime(path, ns=(10**9 * age, 10**9 * age))
    monkeypatch.chdir(tree.top)
    mine = Tree(tree.state.parent)
    for name in (f"notes/texts/{'0' * 32}", f"{other.state.name}/texts/notes.txt"):
        mine.write(name, "not an entry\n" * 100)
        os.utime(mine(name), (0, 0))
    return other


def change(tree, cli):
    tree.edit("modular/one/modular_one.py", "x = 3", "x = 4")
    assert cli("convert", "-q")[0] == 0


def test_the_oldest_entries_go_where_all_take_too_much(tree, other, cli, monkeypatch):
    own, foreign = (
        entries_of(tree),
        sorted(entries_of(other), key=lambda path: path.stat().st_mtime),
    )
    assert (len(own), len(foreign)) == (6, 7)
    kept = [path for path in foreign if path.suffix != ".txt"][2:]
    # Room for this project, for what its change adds, and for four of the six others.
    monkeypatch.setattr("patchgen.project.cache.MOST", bytes_of([*own, *kept]) + 50)
    change(tree, cli)
    notes = other.state / "texts/notes.txt"
    assert entries_of(tree) == own
    assert entries_of(other) == {*kept, notes}
    assert len(Tree(tree.state.parent).files("notes")) == 1
    assert cli("check", "-q")[0] == 0
    monkeypatch.chdir(other.top)
    assert cli("check", "-q")[0] == 0


def test_noop_entries_that_fit(tree, other, cli, monkeypatch):
    before = entries_of(tree, other)
    monkeypatch.setattr("patchgen.project.cache.MOST", bytes_of(before) + 50)
    change(tree, cli)
    assert entries_of(tree, other) == before


def test_a_run_that_makes_nothing_removes_nothing(tree, other, cli, monkeypatch):
    before = entries_of(tree, other)
    monkeypatch.setattr("patchgen.project.cache.MOST", 0)
    assert cli("check", "-q")[0] == 0
    assert entries_of(tree, other) == before


def test_a_link_in_the_cache_leads_to_no_file_that_is_removed(
    tree, other, cli, tmp_path, monkeypatch
):
    outside = tmp_path / "outside" / ("0" * 32)
    outside.parent.mkdir()
    outside.write_text("mine\n" * 100)
    (tree.state.parent / f"x-{'0' * 16}").mkdir()
    (tree.state.parent / f"x-{'0' * 16}/texts").symlink_to(outside.parent)
    monkeypatch.setattr("patchgen.project.cache.MOST", 0)
    change(tree, cli)
    assert outside.is_file()


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
