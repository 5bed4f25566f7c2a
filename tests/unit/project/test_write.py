"""Files are written whole or not at all, one or many."""

import errno
import os
import time

import pytest

from patchgen.project.disk import write
from patchgen.project.disk.sweep import STALE_AFTER, sweep
from patchgen.project.disk.write import Change, apply, replace_file
from patchgen.project.places import MARK


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def temps(folder):
    return [path.name for path in folder.rglob(".patchgen-*.tmp")]


def test_changes_creates_and_removes(tmp_path, state):
    (tmp_path / "old").write_bytes(b"1")
    (tmp_path / "gone").write_bytes(b"2")
    apply(
        [
            Change(tmp_path / "old", b"11"),
            Change(tmp_path / "a/b/new", b"3"),
            Change(tmp_path / "gone", None),
        ],
        state,
    )
    assert (tmp_path / "old").read_bytes() == b"11"
    assert (tmp_path / "a/b/new").read_bytes() == b"3"
    assert not (tmp_path / "gone").exists()
    assert temps(tmp_path) == []
    assert not (state / MARK).exists()


def test_noop_no_changes_touch_nothing(tmp_path):
    apply([], tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("mode", [0o755, 0o640, 0o600])
def test_mode_is_kept(mode, tmp_path, state):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(mode)
    apply([Change(path, b"2")], state)
    assert path.stat().st_mode & 0o777 == mode


def test_new_file_follows_the_umask(tmp_path, state):
    old = os.umask(0o027)
    try:
        apply([Change(tmp_path / "f", b"1")], state)
    finally:
        os.umask(old)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_failure_while_moving_puts_everything_back(failing, error, tmp_path, state, monkeypatch):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "c").write_bytes(b"3")
    moved = []
    real = write._move

    def move(step):
        if len(moved) == failing:
            raise error
        moved.append(step)
        real(step)

    monkeypatch.setattr(write, "_move", move)
    with pytest.raises(type(error)):
        apply(
            [
                Change(tmp_path / "a", b"x"),
                Change(tmp_path / "new/b", b"y"),
                Change(tmp_path / "c", None),
            ],
            state,
        )
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "c").read_bytes() == b"3"
    assert not (tmp_path / "new").exists()
    assert temps(tmp_path) == []
    assert not (state / MARK).exists()


def test_what_is_read_back_must_be_what_was_written(tmp_path, state, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(write, "_write", lambda descriptor, data: os.write(descriptor, data[:1]))
    with pytest.raises(OSError, match="not what is read back"):
        apply([Change(tmp_path / "a", b"new")], state)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert temps(tmp_path) == []


def test_short_writes_are_continued(tmp_path, state, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:3])))
    apply([Change(tmp_path / "a", b"0123456789")], state)
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_sweep_keeps_what_live_processes_stage(tmp_path):
    mine, dead = tmp_path / f".patchgen-{os.getpid()}-0.tmp", tmp_path / ".patchgen-99999999-0.tmp"
    other = tmp_path / ".patchgen-notes.tmp"
    for path in (mine, dead, other):
        path.touch()
    sweep([tmp_path, tmp_path / "missing"])
    assert (mine.exists(), dead.exists(), other.exists()) == (True, False, True)


def test_sweep_takes_old_ones_even_of_a_live_number(tmp_path, monkeypatch):
    path = tmp_path / f".patchgen-{os.getpid()}-0.tmp"
    path.touch()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * STALE_AFTER)
    sweep([tmp_path])
    assert not path.exists()


def test_replace_file_leaves_nothing_behind_when_it_fails(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def refuse(*_args):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="cross-device"):
        replace_file(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"
