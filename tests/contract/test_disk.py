"""Every file is read, written, moved and deleted through one module, `patchgen/disk.py`."""

import ast
import os
import stat

import pytest

from patchgen import disk
from patchgen.syntax.errors import PatchgenError
from tests.toytree import REPOSITORY

PACKAGE = REPOSITORY / "patchgen"
DOOR = "disk.py"
# Methods and functions whose name alone says what they do.
ALWAYS = {
    "chmod",
    "copyfileobj",
    "extractall",
    "fdopen",
    "hardlink_to",
    "load_file",
    "makedirs",
    "mkdir",
    "mkdtemp",
    "mkstemp",
    "open",
    "read_bytes",
    "read_text",
    "removedirs",
    "rename",
    "rmdir",
    "rmtree",
    "save_file",
    "symlink_to",
    "touch",
    "truncate",
    "unlink",
    "write_bytes",
    "write_text",
    "FileLock",
    "NamedTemporaryFile",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
    "TemporaryFile",
    "ZipFile",
}
# Those that other things have too, by the module that they are taken from.
OF_MODULES = {
    "os": {"remove", "replace", "link", "symlink", "renames", "mknod", "mkfifo"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "make_archive", "unpack_archive"},
    "torch": {"load", "save"},
    "np": {"load", "save", "savez", "fromfile", "memmap", "loadtxt", "savetxt"},
    "io": {"FileIO"},
}
# What does not come through the door, and why.
ELSEWHERE = {
    "syntax/errors.py": ({"read_text"}, "its own catalogue: the door itself imports this module"),
    "facts/families.py": ({"read_text"}, "tables of its own package; facts import nothing"),
    "cli/__init__.py": ({"open"}, "the null device, in the place of a closed stream"),
    "project/origin.py": ({"read_text"}, "importlib.metadata says where patchgen came from"),
    "children.py": ({"open"}, "a pipe to a child"),
    "system.py": ({"fdopen", "read_text", "write_bytes"}, "pipes, and /proc, which it measures by"),
    "training/device_memory.py": ({"read_text"}, "the limits of the control group"),
    "verifying/run.py": ({"open"}, "the null device"),
    "author/adopt/releases.py": (
        {"ZipFile", "extractall"},
        "from a file, into a folder, of the door",
    ),
    "project/write.py": ({"FileLock"}, "in a private folder"),
    "training/loop/run.py": ({"FileLock"}, "in the folder of a run"),
    "training/loop/trainer.py": ({"load", "save"}, "torch's, in the folder of a run"),
    "rescuing/environment.py": ({"load"}, "torch's, in a folder of the door"),
    "rescuing/observe.py": (
        {"load", "load_file", "read_text", "save", "write_text"},
        "runs without patchgen, in a folder of the door",
    ),
    "unpatching/equal.py": ({"load", "save"}, "torch's, in a folder of the door"),
}


def touches(text):
    """The name of each call that touches a file, and of each function imported to do so."""
    modules = {"disk": "disk"}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                modules |= {name.asname or name.name: name.name for name in names}
            case ast.ImportFrom(
                module="os" | "shutil" | "tempfile" | "pathlib" as module, names=names
            ):
                known = ALWAYS | OF_MODULES.get(module, set())
                yield from (name.name for name in names if name.name in known)
            case ast.Call(func=ast.Name("open" | "FileLock" | "load_file" | "save_file" as name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(owner), attr=attr)) if owner in modules:
                known = OF_MODULES.get(modules[owner], OF_MODULES.get(owner, set())) | ALWAYS
                if owner != "disk" and attr in known:
                    yield attr
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in ALWAYS:
                yield attr
            # `str.replace` has two arguments.
            case ast.Call(func=ast.Attribute(attr="replace"), args=[_], keywords=[]):
                yield "replace"


WAYS = [
    "open(p)",
    "p.open('a')",
    "io.open(p)",
    "p.read_text()",
    "Path(p).write_bytes(b'')",
    "import os\nos.replace(a, b)",
    "import os as system\nsystem.remove(a)",
    "from shutil import rmtree",
    "import shutil\nshutil.copy(a, b)",
    "p.replace(q)",
    "p.rename(q)",
    "import tempfile\ntempfile.mkdtemp()",
    "import torch\ntorch.save(a, b)",
    "p.mkdir(parents=True)",
]


@pytest.mark.parametrize("way", WAYS)
def test_it_finds_each_way(way):
    assert list(touches(way))


def test_noop_what_touches_no_file():
    text = "from patchgen import disk\ndisk.read_text(p)\n'a'.replace('b', 'c')\nreplace(a, b=1)\na.copy()"
    assert not list(touches(text))


def test_one_door():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = set(touches(path.read_text(encoding="utf-8")))
        if calls and path.relative_to(PACKAGE).as_posix() != DOOR:
            found[path.relative_to(PACKAGE).as_posix()] = calls
    assert found == {name: calls for name, (calls, _) in ELSEWHERE.items()}


# What the door does


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="this system has no /proc")
@pytest.mark.parametrize("name", ["environ", "maps", "status", "pagemap", "mem", "kcore"])
def test_what_the_system_makes_up_is_no_file(name, tmp_path):
    link = tmp_path / "x.py"
    link.symlink_to(f"/proc/{name}" if name == "kcore" else f"/proc/self/{name}")
    if not link.exists():
        pytest.skip("this system has none")
    with pytest.raises((OSError, PatchgenError)):
        disk.read_bytes(link)
    with pytest.raises(PatchgenError, match="PG00[12]"):
        disk.text_of(link)


def test_a_sparse_file_is_refused_by_its_size(tmp_path):
    with open(tmp_path / "big", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PatchgenError, match="PG002 is 1,099,511,627,776 bytes long"):
        disk.text_of(tmp_path / "big")


def test_a_file_that_grows_is_read_up_to_the_limit(tmp_path, monkeypatch):
    (tmp_path / "log").write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "read", lambda descriptor, size: b"x" * size)
    with pytest.raises(OSError, match="the limit is 5,000,000"):
        disk.read_bytes(tmp_path / "log")


@pytest.fixture
def top(tmp_path):
    (tmp_path / "top/inner").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/kept").write_text("mine")
    (tmp_path / "top/link").symlink_to(tmp_path / "out")
    (tmp_path / "top/file").symlink_to(tmp_path / "out/kept")
    (tmp_path / "top/dangling").symlink_to(tmp_path / "out/new")
    (tmp_path / "top/.git").mkdir()
    return tmp_path / "top"


OUT = ["../out/a", "link/a", "link/new/a", "link/kept", "file", "dangling", "inner/../../out/a"]


@pytest.mark.parametrize("name", [*OUT, ".git/config"])
def test_nothing_is_written_outside(name, top):
    with pytest.raises(PatchgenError, match="PG904"):
        disk.write(top / name, "x", top)
    with pytest.raises(PatchgenError, match="PG904"):
        disk.copy(top.parent / "out/kept", top / name, top)
    assert [path.name for path in (top.parent / "out").iterdir()] == ["kept"]
    assert (top.parent / "out/kept").read_text() == "mine"


@pytest.mark.parametrize("name", ["../out/kept", "link/kept"])
def test_nothing_is_removed_outside(name, top):
    with pytest.raises(PatchgenError, match="PG904"):
        disk.remove(top / name, top)
    with pytest.raises(PatchgenError, match="PG904"):
        disk.remove_folder((top / name).parent / "kept", top)
    assert (top.parent / "out/kept").read_text() == "mine"


@pytest.mark.parametrize("name", ["link", "file", "dangling"])
def test_of_a_link_the_link_is_removed(name, top):
    (disk.remove_folder if name == "link" else disk.remove)(top / name, top)
    assert not os.path.lexists(top / name)
    assert (top.parent / "out/kept").read_text() == "mine"


def test_a_link_inside_stands_for_its_file(top):
    (top / "inner/real").write_text("old")
    (top / "alias").symlink_to("inner/real")
    disk.write(top / "alias", "new", top)
    assert (top / "alias").is_symlink() and (top / "inner/real").read_text() == "new"


def test_a_project_behind_a_link_is_the_project(top):
    home = top.parent / "home"
    home.symlink_to(top)
    disk.write(home / "a/b", "x", home)
    disk.write(home / "a/c", "x", top)
    assert sorted(os.listdir(top / "a")) == ["b", "c"]


def test_a_private_folder(tmp_path):
    assert disk.make_private(tmp_path / "a/b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    for mode in (0o777, 0o775, 0o1777):
        (tmp_path / "a/b").chmod(mode)
        assert not disk.make_private(tmp_path / "a/b")
    (tmp_path / "a/b").chmod(0o755)
    assert disk.make_private(tmp_path / "a/b")
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    assert not disk.make_private(tmp_path / "link")
