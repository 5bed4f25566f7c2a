"""Whatever the system refuses, each output is the old one or the new one, the exit code is right, the message one line."""

from __future__ import annotations

import errno
import itertools
import os
import signal

import pytest

from patchgen import disk
from patchgen.cli import main
from tests import standin

ERRORS = {
    name: OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
    for name in ("EACCES", "EROFS", "ENOSPC", "EIO", "EXDEV", "EMFILE", "ENOENT", "EISDIR")
}
ERRORS |= {"MemoryError": MemoryError(), "KeyboardInterrupt": KeyboardInterrupt()}
# The call that fails, and the how manieth of its kind, with the number of files that are new then: the first file,
# another, the records, which come last.
POINTS = {
    ("fsync", 1): 0,
    ("fsync", 2): 1,
    ("replace", 1): 0,
    ("replace", 2): 1,
    ("replace", 5): 4,
}


class Faulty:
    """The module `os`, but one call of one function raises; from then on too, where the fault is lasting."""

    def __init__(self, name: str, number: int, error: BaseException, lasting: bool = False) -> None:
        self._name, self._left, self._error, self._lasting = name, number, error, lasting
        self.hit = False

    def __getattr__(self, name: str):
        real = getattr(os, name)
        if name != self._name:
            return real

        def call(*args, **more):
            self._left -= 1
            if self._left == 0 or (self._left < 0 and self._lasting):
                self.hit = True
                raise self._error
            return real(*args, **more)

        return call


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A converted project of which both outputs have become stale."""
    tree = standin.standin_project(tmp_path / "proj")
    standin.install(monkeypatch)
    monkeypatch.chdir(tree.top)
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    assert main(["convert", "-q"]) == 0
    tree.edit("modular/one/modular_one.py", "x = 3", "x = 30")
    tree.edit("modular/two/modular_two.py", "y = 4", "y = 40")
    return tree


def temps(tree):
    return list(tree.top.rglob(".patchgen-*.tmp"))


def digests(tree):
    return {name: digest for name, (digest, _) in tree.snapshot().items()}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0]}{point[1]}")
@pytest.mark.parametrize("name", ERRORS)
def test_fault_while_writing(name, point, tree, monkeypatch, capsys):
    main(["check", "-q"])  # fills the cache, so that the fault meets outputs and no entry of it
    before = digests(tree)
    faulty = Faulty(*point, ERRORS[name])
    capsys.readouterr()
    with monkeypatch.context() as broken:
        broken.setattr(disk, "os", faulty)
        code = main(["convert", "--no-cache"])
    out, err = capsys.readouterr()
    assert faulty.hit
    after = digests(tree)
    assert sum(after[path] != before[path] for path in before) == POINTS[point]
    assert after["patchgen.lock"] == before["patchgen.lock"]
    assert temps(tree) == []
    assert code == (130 if name == "KeyboardInterrupt" else 2)
    message = (out + err).strip()
    assert "Traceback" not in message
    assert len([line for line in message.splitlines() if not line.startswith("    ")]) == 1
    assert main(["check", "-q"]) == 1
    assert main(["convert", "-q"]) == 0
    assert main(["check", "-q"]) == 0


class Deadly:
    """The module `os`, but the process dies before the call number `left` of a function that changes files."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __getattr__(self, name: str):
        real = getattr(os, name)
        if name not in ("chmod", "fsync", "replace", "unlink"):
            return real

        def call(*args, **more):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        return call


def convert_and_die(point: int) -> bool:
    """Whether a process that converts was killed before its change of files number `point`."""
    child = os.fork()
    if not child:
        disk.os = Deadly(point)
        os._exit(main(["convert", "-q", "--no-cache", "--jobs", "1"]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    "step", [pytest.param(4, id="few"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_killed_before_each_change_of_files(step, tree):
    """Each file is then the old one or the new one, and `check` says which outputs are old."""
    old = tree.contents()
    assert main(["convert", "-q"]) == 0
    new = tree.contents()
    changed = [name for name in old if old[name] != new[name] and "cache" not in name]
    assert len(changed) == 5
    for point in itertools.count(0, step):
        for name in changed:
            tree(name).write_bytes(old[name])
        if not convert_and_die(point):
            break
        left = tree.contents()
        assert all(left[name] in (old[name], new[name]) for name in changed)
        is_clean = all(left[name] == new[name] for name in changed)
        assert main(["check", "-q"]) == (0 if is_clean else 1)
        assert main(["convert", "-q"]) == 0
        healed = tree.contents()
        assert all(healed[name] == new[name] for name in changed)
        assert temps(tree) == []
    assert point >= 15


def test_message_names_the_output(tree, monkeypatch, capsys):
    monkeypatch.setattr(disk, "os", Faulty("fsync", 1, ERRORS["ENOSPC"]))
    assert main(["convert", "--no-cache"]) == 2
    expected = "generated/one/modeling_one.diff: PG903 cannot be written: No space left on device\n"
    hint = "each output is complete, the old one or the new one: run `patchgen convert` again"
    assert capsys.readouterr().err == f"{expected}    hint: {hint}\n"


@pytest.mark.parametrize("name", ["EACCES", "EIO", "EMFILE"])
def test_fault_while_reading_an_output(name, tree, monkeypatch, capsys):
    before = tree.snapshot()
    real = os.open

    def broken_open(file, *args, **options):
        if str(file).endswith("modeling_one.py"):
            raise ERRORS[name]
        return real(file, *args, **options)

    with monkeypatch.context() as broken:
        broken.setattr("os.open", broken_open)
        assert main(["check", "--no-cache"]) == 2
    out = capsys.readouterr().out
    assert (
        f"generated/one/modeling_one.py: PG903 cannot be read: {os.strerror(getattr(errno, name))}"
        in out
    )
    assert "generated/two/modeling_two.py" in out
    assert tree.snapshot() == before


def test_no_memory_while_flattening_costs_one_file(tree, monkeypatch, capsys):
    import patchgen.compiler.flatten

    def flatten(path, env, settings):
        if "one" in path.name:
            raise MemoryError
        return standin.stand_in(path, env, settings)

    monkeypatch.setattr(patchgen.compiler.flatten, "make_draft", standin.as_draft(flatten))
    old = tree.read("generated/one/modeling_one.py")
    assert main(["convert"]) == 2
    assert "modular/one/modular_one.py: PG907 there is not enough memory" in capsys.readouterr().out
    assert tree.read("generated/one/modeling_one.py") == old
    assert "y = 40" in tree.read("generated/two/modeling_two.py")


def test_interrupt_while_flattening(tree, monkeypatch, capsys):
    import patchgen.compiler.flatten

    def flatten(path, env, settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(patchgen.compiler.flatten, "make_draft", standin.as_draft(flatten))
    before = tree.snapshot()
    assert main(["convert"]) == 130
    assert (
        capsys.readouterr().err.strip()
        == "patchgen: interrupted; every file that was written is complete"
    )
    assert tree.snapshot() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"made_with": 1}', "\x00"], ids=repr)
def test_damaged_cache_is_as_none(text, tree):
    main(["check", "-q"])
    entries = [*(tree.state / "outcomes").iterdir(), *(tree.state / "answers").iterdir()]
    assert entries
    for path in entries:
        path.write_text(text)
    assert main(["convert", "-q"]) == 0
    assert main(["check", "-q"]) == 0


def test_cache_that_cannot_be_written(tree, monkeypatch):
    real = disk.write

    def refuse(path, data, within, *, lasting=True):
        if not lasting:
            raise ERRORS["EROFS"]
        real(path, data, within)

    monkeypatch.setattr(disk, "write", refuse)
    assert main(["check", "-q"]) == 1
    assert main(["convert", "-q"]) == 0


def test_file_where_the_cache_should_be(tree):
    import shutil

    shutil.rmtree(tree.state)
    tree.state.write_text("a file")
    assert main(["check", "-q"]) == 1
    assert main(["convert", "-q"]) == 2  # no place for the lock
