"""Files are written whole or not at all, one or many."""

import errno
import os

import pytest

from patchgen.disk import write
from patchgen.project.write import Change, apply


def temps(folder):
    return [path.name for path in folder.rglob(".patchgen-*.tmp")]


@pytest.mark.parametrize("mode", [0o755, 0o640, 0o600])
def test_mode_is_kept(mode, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(mode)
    apply([Change(path, b"2")], tmp_path)
    assert path.stat().st_mode & 0o777 == mode


def test_new_file_follows_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        apply([Change(tmp_path / "f", b"1")], tmp_path)
    finally:
        os.umask(old)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_write_leaves_nothing_behind_when_it_fails(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def refuse(*_args):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="cross-device"):
        write(tmp_path / "a", b"new", tmp_path)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_failure_leaves_each_file_old_or_new_and_nothing_else(error, tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).write_bytes(b"old")
    real, left = os.replace, [1]

    def replace(*paths):
        if not left:
            raise error
        left.pop()
        real(*paths)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(type(error)):
        apply([Change(tmp_path / name, b"new") for name in "abc"], tmp_path)
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"new", b"old", b"old"]
    assert temps(tmp_path) == []
