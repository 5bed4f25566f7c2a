"""What a stranger's repository leads to: nothing outside of it is written, deleted or copied, no file without an end is
read, and no record and no cache that anybody may have written is believed."""

import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen import disk
from patchgen.cli import main
from patchgen.cli.session import Request, open_session
from patchgen.project.cache import Cache
from patchgen.project.lock import read_lock, render_lock, shorten
from patchgen.project.outcome import digest_of_file
from patchgen.project.places import user_folder
from patchgen.project.write import write_new
from patchgen.syntax.errors import PatchgenError
from tests.toytree import Tree, environment, toy_project

SLOW = pytest.mark.slow
ONE = "generated/v1/modeling_v1.py"


@pytest.fixture
def outside(tmp_path):
    """What must stay as it is: files beside the project."""
    outside = Tree(tmp_path / "outside")
    outside.write("token", "secret")
    outside.write("modular_v1.py", "# mine\n")
    outside("empty").mkdir()
    return outside


@pytest.fixture
def tree(tmp_path, monkeypatch, outside):
    tree = toy_project(tmp_path / "proj")
    monkeypatch.chdir(tree.top)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tree


@pytest.fixture
def run(capsys):
    """Runs a command line; its exit code, and what it says."""

    def run(*argv):
        code = main(argv)
        done = capsys.readouterr()
        assert "internal error" not in done.out + done.err
        return code, done.out + done.err

    return run


def everything(outside):
    return outside.snapshot(), sorted(os.listdir(outside.top)), os.listdir(outside("empty"))


# Out of the project

LINKED = {
    "page": ["page", "--out", "linked"],
    "page below": ["page", "--out", "linked/pages"],
    "adopt": ["adopt", "lib/toy/modeling_toy.py", "--out", "linked"],
    "export": ["export", "v1", "--out", "linked"],
    "unpatch": ["unpatch", "--out", "linked", "--", "python", "x.py"],
    "rescue": ["rescue", "lib/toy", "--out", "linked"],
    "init": ["init", "linked"],
    "init below": ["init", "linked/new"],
    "convert": ["convert", "--out", "linked"],
    "check": ["check", "--fix", "--out", "linked"],
    "verify": ["verify", "--out", "linked"],
    "memory": ["memory", "--figure", "linked/a.svg"],
    "behind dots": ["page", "--out", "modular/../linked"],
}


@pytest.mark.parametrize("argv", LINKED.values(), ids=LINKED)
def test_a_folder_that_is_named_and_linked(argv, tree, outside, run):
    tree("linked").symlink_to(outside("empty"))
    before = everything(outside)
    code, said = run(*argv)
    assert code == 2 and "PG904" in said and "it leads out of proj" in said
    assert everything(outside) == before


def test_noop_a_folder_elsewhere_is_what_was_named(tree, outside, run):
    outside("link").symlink_to(outside("empty"))
    assert run("convert", "-q", "--out", str(outside("link")))[0] == 0
    assert len(os.listdir(outside("empty"))) == 4


SOURCES = {
    "new": ["new", "--from-gallery", "llama_loss"],
    "rebase": ["rebase", "--write"],
    "convert": ["convert"],
    "check": ["check", "--fix"],
}


@pytest.mark.parametrize("argv", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("place", ["../outside", "linked"])
def test_sources_outside(place, argv, tree, outside, run):
    tree("linked").symlink_to(outside.top)
    tree.edit("pyproject.toml", 'sources = ["modular"]', f'sources = ["{place}"]')
    tree.edit("pyproject.toml", 'outputs = { modular = "generated" }', "")
    outside.write("modular_v1.py", tree.read("modular/v1/modular_v1.py"))
    before = everything(outside)
    code, said = run(*argv)
    assert code == 2 and "PG904" in said
    assert everything(outside) == before


@pytest.mark.parametrize("name", ["llama", "llama/modular_llama_loss.py"])
def test_new_below_a_link(name, tree, outside, run):
    tree(f"modular/{name}").parent.mkdir(exist_ok=True)
    tree(f"modular/{name}").symlink_to(outside("new" if name.endswith(".py") else "empty"))
    before = everything(outside)
    code, said = run("new", "--from-gallery", "llama_loss", "--force")
    assert code == 2 and "modular/llama/modular_llama_loss.py: PG904 lies outside proj" in said
    assert everything(outside) == before


@pytest.mark.parametrize("target", ["modular_v1.py", "new"])
def test_a_declaration_that_is_a_link(target, tree, outside):
    """As `adopt` and `unpatch` write theirs, into the folder that is named."""
    tree("named").mkdir()
    tree("named/modular_x.py").symlink_to(outside(target))
    before = everything(outside)
    with pytest.raises(PatchgenError, match="modular_x.py: PG904 lies outside named"):
        write_new(tree("named/modular_x.py"), "x = 1\n", tree("named"), True, "modular_x.py")
    assert everything(outside) == before


STARTERS = ["modular", ".github", "pyproject.toml", ".pre-commit-config.yaml"]


@pytest.mark.parametrize("name", STARTERS)
def test_init_below_a_link(name, tree, outside, run):
    shutil.rmtree(tree("modular"))
    tree("pyproject.toml").unlink()
    tree(name).symlink_to(outside("empty") if "." not in name[1:] else outside("new.toml"))
    before = everything(outside)
    code, said = run("init")
    # What exists is kept.
    assert code == 2 and "PG904" in said or name == STARTERS[-1]
    assert everything(outside) == before


@pytest.mark.parametrize("target", ["token", "new"])
def test_a_page_that_is_a_link(target, tree, outside, run):
    tree("pages").mkdir()
    tree("pages/v1.html").symlink_to(outside(target))
    before = everything(outside)
    code, said = run("page", "--out", "pages")
    assert code == 2 and "v1.html: PG904 lies outside pages" in said
    assert everything(outside) == before


def test_noop_a_modular_file_that_is_a_link_inside(tree, run):
    tree("modular/v1/modular_v1.py").rename(tree("real.py"))
    tree("modular/v1/modular_v1.py").symlink_to("../../real.py")
    assert run("convert")[0] == 0
    assert run("check")[0] == 0


def test_noop_a_project_behind_a_link(tree, tmp_path, run, monkeypatch):
    (tmp_path / "home").symlink_to(tree.top)
    monkeypatch.chdir(tmp_path / "home")
    assert run("convert")[0] == 0
    assert run("page", "--out", str(tmp_path / "home/pages"))[0] == 0
    assert run("check", str(tmp_path / "home/modular"))[0] == 0


# Into what people upload


@pytest.fixture
def model(tmp_path):
    """The folder of a model on the Hub."""
    model = Tree(tmp_path / "model")
    model.write("modeling_x.py", "import transformers\n")
    model.write("config.json", "{}")
    return model


@pytest.mark.parametrize("name", ["vocab.txt", "config.json", "modeling_y.py", "README.md"])
def test_a_model_with_a_link_to_a_secret(name, model, outside, tmp_path):
    from patchgen.rescuing.rescue import read_repository

    outside.write("token", "{}" if name == "config.json" else "secret = 1\n")
    model(name).unlink(missing_ok=True)
    model(name).symlink_to(outside("token"))
    with pytest.raises(PatchgenError, match=f"{name}: PG904 is a link that leads out of model"):
        read_repository(model.top)


def test_rescue_copies_no_secret(model, outside):
    model("vocab.txt").symlink_to(outside("token"))
    argv = [sys.executable, "-m", "patchgen", "rescue", "model", "--no-verify", "--out", "out"]
    done = subprocess.run(
        argv, cwd=model.top.parent, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "vocab.txt: PG904" in done.stderr
    assert not (model.top.parent / "out").exists()


@SLOW
def test_a_checkpoint_with_a_link_to_a_secret(model, outside, tmp_path):
    pytest.importorskip("torch")
    from patchgen.runtime.export import _copy

    model("vocab.txt").symlink_to(outside("token"))
    (tmp_path / "new").mkdir()
    with pytest.raises(PatchgenError, match="PG904"):
        _copy(model.top, tmp_path / "new", ("vocab*",))
    assert not list((tmp_path / "new").iterdir())


def test_noop_the_cache_of_the_hub(tmp_path):
    """Its files are links to blobs of the same model."""
    cache = Tree(tmp_path / "hub/models--me--x")
    cache.write("blobs/abc", "words")
    cache("snapshots/1").mkdir(parents=True)
    cache("snapshots/1/vocab.txt").symlink_to("../../blobs/abc")
    disk.require_own(cache("snapshots/1/vocab.txt"), cache("snapshots/1"))
    other = Tree(tmp_path / "hub/models--you--y")
    other.write("blobs/def", "secret")
    cache("snapshots/1/merges.txt").symlink_to(other("blobs/def"))
    with pytest.raises(PatchgenError, match="PG904"):
        disk.require_own(cache("snapshots/1/merges.txt"), cache("snapshots/1"))


# Records


def forge(tree, output, **fields):
    """A record of `output` as patchgen would write it, about the file that is there."""
    lock = tree("patchgen.lock")
    records = list(read_lock(lock).values())
    digest = shorten(disk.digest_of_data(tree(output)))
    forged = {"modular": "modular/gone/modular_gone.py", "digest": digest, "diff_digest": ""}
    records.append(replace(records[0], output=output, **forged | fields))
    lock.write_text(render_lock(records), encoding="utf-8")


VICTIMS = [
    "setup.py",
    ".git/config",
    "generated/setup.py",
    "generated/../setup.py",
    "modular/v1/../../setup.py",
    "notes/modeling_old.py",
    "generated/link.py",
    "patchgen.overrides.toml",
]


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("argv", [["check", "--fix"], ["convert"], ["check", "--fix", "modular"]])
def test_a_forged_record_deletes_nothing(victim, argv, tree, run):
    assert run("convert")[0] == 0
    banner = "# Generated by patchgen from modular/gone/modular_gone.py: edit that file.\n"
    tree.write("setup.py", "import os\n")
    tree.write("notes/modeling_old.py", banner)
    if victim == "generated/link.py":
        tree(victim).symlink_to("../setup.py")
    elif not tree(victim).exists():
        tree.write(victim, "mine\n")
    forge(tree, victim)
    before = tree.contents()
    code, said = run(*argv)
    after = tree.contents()
    assert {k: v for k, v in after.items() if k != "patchgen.lock"} == {
        k: v for k, v in before.items() if k != "patchgen.lock"
    }
    if argv == ["check", "--fix"]:
        assert code == 1 and "PG503" in said


def test_noop_an_orphan_of_patchgen_is_removed(tree, run):
    assert run("convert")[0] == 0
    tree("modular/v1/modular_v1.py").unlink()
    assert run("check", "--fix")[0] == 0
    assert not tree(ONE).exists() and not tree("generated/v1/modeling_v1.diff").exists()


# Files without an end

ENDLESS = {
    "pagemap": "/proc/self/pagemap",
    "memory": "/proc/self/mem",
    "core": "/proc/kcore",
    "maps": "/proc/self/maps",
    "zero": "/dev/zero",
    "sparse": "",
    "pipe": "",
}
READ = [
    "patchgen.lock",
    "patchgen.overrides.toml",
    "pyproject.toml",
    "modular/v1/modular_v1.py",
    "lib/toy/modeling_toy.py",
    ONE,
    "generated/v1/modeling_v1.diff",
    "docs/parity/parity.json",
    "docs/benchmarks.md",
    "generated/v1/other.py",
]


def put_endless(path, kind):
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    elif os.path.exists(ENDLESS[kind]):
        path.symlink_to(ENDLESS[kind])
    else:
        pytest.skip("this system has none")


# Each kind and each name once; all of them with each other take minutes.
QUICK = dict(zip(READ, itertools.cycle(ENDLESS), strict=False))
CASES = [
    pytest.param(kind, name, id=f"{kind}-{name}", marks=[] if QUICK[name] == kind else [SLOW])
    for kind in ENDLESS
    for name in READ
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_file_without_an_end(kind, name, tree, run):
    assert run("convert", "-q")[0] == 0
    put_endless(tree(name), kind)
    for argv in (
        ["check"],
        ["convert"],
        ["lint"],
        ["list"],
        ["explain", f"{ONE}:1"],
        ["page", "--out", "p"],
    ):
        assert run(*argv)[0] in (0, 1, 2)


# Caches


def test_the_cache_is_made_private(tree, run, tmp_path):
    assert run("convert")[0] == 0
    for folder in [tmp_path / "user-cache", *(tmp_path / "user-cache").rglob("*")]:
        if folder.is_dir():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no modes of folders")
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o777])
def test_a_forged_entry_in_a_shared_cache_is_not_believed(mode, tree, run, tmp_path, monkeypatch):
    shared, out = tmp_path / "shared", tmp_path / "flat"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(shared))
    argv = ["--out", str(out)]
    assert run("convert", *argv)[0] == 0
    # What everybody can compute: an outcome that names the digest of another output.
    session = open_session(Request(out=str(out)))
    cache = Cache(session.project)
    (out / "modeling_v1.py").write_text("import os\n")
    for modular in session.selection.modulars:
        outcome = cache.load(modular)
        outputs = [replace(o, digest=digest_of_file(out / o.name)) for o in outcome.outputs]
        cache.store(replace(outcome, outputs=tuple(outputs)))
    shared.chmod(mode)
    before = Tree(shared).snapshot()
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", f"{shared}/")  # asked for anew, as by another run
    done = [run("check", *argv), run("check", *argv)]
    codes, told = (
        [code for code, _ in done],
        [said.count("others may write there") for _, said in done],
    )
    if mode & 0o022:
        assert codes == [1, 1] and told == [1, 0]
        assert user_folder() == Path(os.path.realpath(tmp_path / f"patchgen-{os.getuid()}"))
        assert Tree(shared).snapshot() == before
    else:
        assert codes == [0, 0] and told == [0, 0]


def test_an_entry_of_one_file_is_none_of_another(tree, run):
    """The outcomes of two files with the same text change places."""
    assert run("convert")[0] == 0
    one, two = sorted((tree.state / "outcomes").iterdir())
    texts = one.read_bytes(), two.read_bytes()
    one.write_bytes(texts[1])
    two.write_bytes(texts[0])
    assert run("check")[0] == 0
    tree.edit(ONE, "return", "return 7 or")
    assert run("check")[0] == 1


def test_json_that_is_nested_without_an_end(tmp_path):
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"nested|expected|Expecting"):
        disk.read_json(tmp_path / "a.json")
    (tmp_path / "b.json").write_text(json.dumps({"a": 1}))
    assert disk.read_json(tmp_path / "b.json") == {"a": 1}
