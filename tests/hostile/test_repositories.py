"""A repository for each kind of what strangers send, by every command that it concerns, in each form.

A command may refuse it or do its work; it does no more than its line of SECURITY.md says, changes nothing that is not
the project's, and ends in an answer.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.audit import read_table, watched
from tests.toytree import Tree

if sys.platform == "win32":
    pytest.skip("names and links that Windows does not have", allow_module_level=True)

TABLE = read_table()
FILE = "modular/v1/modular_v1.py"
LOOK = [["check"], ["check", "--no-cache"], ["diff"], ["lint"], ["list"], ["explain", FILE]]
WRITE = [["convert"], ["convert", "--force"], ["check", "--fix"], ["rebase", "--write"]]
PAGES = [
    ["page", "--out", "{named}/pages"],
    ["survive"],
    ["new", "llama", "--with", "loss", "--no-proof"],
]
EVERY = [*LOOK, *WRITE, *PAGES]
RAN = "raise SystemExit(open({mark!r}, 'w').write(__name__))\n"
BREAK = "x\nimport os; os.system('touch ran')  #y"


# Each writes a repository of its kind into the tree of a converted project.


def in_names(tree, world):
    tree.write(f"modular/{BREAK}/modular_v3.py", tree.read(FILE))


def in_modules(tree, world):
    """What Python would import in place of its own modules, and of patchgen's."""
    names = ("venv", "pip", "types", "logging", "sitecustomize", "usercustomize", "click", "tomllib", "libcst", "ruff",
             "ast", "json", "patchgen/__init__", "patchgen/__main__", "patchgen/cli", "pip/__init__", "conftest")  # fmt: skip
    for name in names:
        tree.write(f"{name}.py", RAN.format(mark=str(world.outside / "ran")))


def in_packages_that_are_read(tree, world):
    """The parents themselves act when they are imported."""
    mark = RAN.format(mark=str(world.outside / "ran"))
    tree.write("lib/toy/__init__.py", mark)
    tree.write("lib/toy/modeling_toy.py", tree.read("lib/toy/modeling_toy.py") + "\n\n" + mark)
    tree.write(FILE, tree.read(FILE) + "\n\n" + mark)
    tree.write("generated/__init__.py", mark)
    tree.write("generated/v1/__init__.py", mark)


def in_a_folder_of_the_release(tree, world):
    tree.write("transformers/__init__.py", "__version__ = '9.9.9'\n")
    tree.write(
        "transformers/models/llama/modeling_llama.py", RAN.format(mark=str(world.outside / "ran"))
    )
    tree.write("lib/transformers/models/llama/modeling_llama.py", "class LlamaMLP:\n    pass\n")


def in_sources(tree, world):
    Tree(world.outside).write("modular_v9.py", tree.read(FILE))
    tree.edit(
        "pyproject.toml",
        'sources = ["modular"]',
        f'sources = ["modular", "../outside", {str(world.outside)!r}]',
    )


def in_outputs(tree, world):
    tree.edit("pyproject.toml", '"generated"', '"../outside/generated"')


def in_linked_outputs(tree, world):
    shutil.move(tree("generated"), world.outside / "generated")
    tree("generated").symlink_to(world.outside / "generated")


def in_linked_sources(tree, world):
    shutil.move(tree("modular"), world.outside / "modular")
    tree("modular").symlink_to(world.outside / "modular")


def in_linked_files(tree, world):
    for name in (
        FILE,
        "generated/v1/modeling_v1.py",
        "generated/v1/modeling_v1.diff",
        "patchgen.lock",
    ):
        target = world.outside / Path(name).name
        shutil.move(tree(name), target)
        tree(name).symlink_to(target)


def in_links_to_a_secret(tree, world):
    secret = world.outside / "token"
    for name in ("lib/toy/modeling_toy.py", "modular/v2/modular_v2.py"):
        tree(name).unlink(missing_ok=True)
        tree(name).symlink_to(secret)


def in_keys(tree, world):
    name = json.dumps("a\x1b[2K\n::add-mask::b\u202e")
    tree.edit("pyproject.toml", "[tool.patchgen]", f"[tool.patchgen]\n{name} = {name}")


def in_records(tree, world):
    """Records of what patchgen did not write."""
    tree.write("setup.py", "# mine\n")
    tree.write(".git/config", "[core]\n")
    lock = json.loads(tree.read("patchgen.lock"))
    record = lock["generated/v1/modeling_v1.py"]
    for name in (
        "setup.py",
        ".git/config",
        "../outside/keep.py",
        str(world.outside / "keep.py"),
        FILE,
    ):
        lock[name] = ["modular/gone/modular_gone.py", *record[1:]]
    tree.write("patchgen.lock", json.dumps(lock))


def in_reports(tree, world):
    tree.write(
        "docs/parity/parity.json", json.dumps({"variants": {"v1": [[]]}, "results": "a\x1b"})
    )


def in_endless_files(tree, world):
    for name, target in {
        "patchgen.overrides.toml": "/proc/self/environ",
        "modular/v2/modular_v2.py": "/proc/self/pagemap",
        "lib/toy/modeling_toy.py": "/dev/zero",
    }.items():
        tree(name).unlink(missing_ok=True)
        tree(name).symlink_to(target)


def in_sparse_files(tree, world):
    for name in (
        "modular/v2/modular_v2.py",
        "patchgen.lock",
        "lib/toy/modeling_toy.py",
        "generated/v1/modeling_v1.py",
    ):
        with open(tree(name), "wb") as file:
            file.truncate(1 << 40)


def in_pipes(tree, world):
    for name in (
        "modular/v2/modular_v2.py",
        "patchgen.lock",
        "generated/v2/modeling_v2.py",
        "patchgen.overrides.toml",
    ):
        tree(name).unlink(missing_ok=True)
        os.mkfifo(tree(name))


def in_long_lines(tree, world):
    tree.write(FILE, tree.read(FILE) + f"# {'a' * 1_000_000}\n")


def in_a_shared_cache(tree, world):
    """Everybody can write where the cache is, and somebody did."""
    tree.write(
        "generated/v1/modeling_v1.py", tree.read("generated/v1/modeling_v1.py") + "import os\n"
    )
    world.cache.chmod(0o777)
    for path in world.cache.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)


KINDS = [value for name, value in list(globals().items()) if name.startswith("in_")]
# What has to be found, by `check`; the other kinds are only harmless.
FOUND = {
    in_names: "PG506",
    in_outputs: "PG904",
    in_linked_outputs: "PG904",
    in_linked_files: "PG904",
    in_links_to_a_secret: "PG904",
    in_keys: "PG901",
    in_endless_files: "PG512",
    in_sparse_files: "PG507",
    in_pipes: "PG507",
    in_long_lines: "PG915",
    in_a_shared_cache: "PG50",
}


@pytest.fixture
def secret(world):
    outside = Tree(world.outside)
    outside.write("token", "hf_secret\n")
    outside.write("keep.py", "# Generated by patchgen from elsewhere\n")
    return outside


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_repository(kind, world, secret, capsys, monkeypatch):
    tree = Tree(world.project)
    assert watched(world, ["convert", "-q"], capsys).code == 0
    kind(tree, world)
    before, files = secret.snapshot(), own_files(tree)
    for argv in EVERY:
        forms = [[]]
        if argv[0] in ("check", "convert", "lint"):
            forms = [["--output-format", "text"], ["--output-format", "github"]]
        for form in forms:
            run = watched(world, [word.format(named=world.named) for word in argv] + form, capsys)
            faults = run.faults(TABLE[argv[0]], follows_links=True)
            assert not faults, (run.argv, faults, run.text[-2000:])
            assert secret.snapshot() == before, run.argv
            assert own_files(tree) == files, run.argv
            assert "hf_secret" not in run.text, run.argv
            if argv == ["check"]:
                assert FOUND.get(kind, "") in run.text, run.text
                assert kind not in FOUND or run.code


def own_files(tree):
    """What people wrote, and no command may change or delete."""
    return {name: os.lstat(tree(name)).st_mtime_ns for name in ("setup.py", ".git/config", "pyproject.toml", FILE)
            if os.path.lexists(tree(name))}  # fmt: skip


FORK = "from transformers import PreTrainedModel\n\n\nclass TinyModel(PreTrainedModel):\n    pass\n"
DOWNLOADS = [
    ["survive", "--releases", "4.40.0", "--download"],
    ["rebase", "--from", "4.40.0", "--download", "--write"],
    ["adopt", "modeling_tiny.py", "--release", "4.40.0", "--download"],
    ["rescue", "modeling_tiny.py", "--from", "4.37.2", "--download", "--no-verify"],
    ["rescue", "modeling_tiny.py", "--from", "4.37.2", "--download", "--with-environments"],
    ["unpatch", "--no-verify", "--", "python", "-c", "pass"],
]


@pytest.mark.parametrize(
    "argv",
    [DOWNLOADS[0], *(pytest.param(argv, marks=pytest.mark.slow) for argv in DOWNLOADS[1:])],
    ids=lambda argv: " ".join(argv[:4]),
)
def test_what_downloads_runs_nothing_of_the_repository(argv, world):
    """Without an index there is nothing to be had, and pip says so: it was the real one."""
    tree = Tree(world.project)
    in_modules(tree, world)
    tree.write("modeling_tiny.py", FORK)
    script = Path(sys.executable).with_name("patchgen")
    env = {**os.environ, "PIP_NO_INDEX": "1", "PYTHONPATH": "", "PYTHONSAFEPATH": ""}
    done = subprocess.run(
        [str(script), *argv], cwd=tree.top, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert not (world.outside / "ran").exists()


def test_a_hub_folder_with_a_link_to_a_secret(world, secret, capsys):
    hub = Tree(world.named / "hub")
    hub.write("config.json", "{}")
    hub.write("modeling_tiny.py", FORK)
    hub("vocab.txt").symlink_to(world.outside / "token")
    out = world.named / "rescued"
    argv = ["rescue", str(hub.top), "--from", "4.37.2", "--out", str(out), "--no-verify"]
    run = watched(world, argv, capsys)
    assert not run.faults(TABLE["rescue"]), run.text
    assert "vocab.txt: PG904" in run.text
    assert not any("hf_secret" in path.read_text() for path in out.rglob("*") if path.is_file())
