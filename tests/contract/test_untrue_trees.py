"""Trees in which an output is not what Python imports, or not what a modular file gives: none passes the gate.

Each case starts from a converted project that passes, and does to it what its id says.
"""

from __future__ import annotations

import py_compile
import shutil
from collections.abc import Callable

import pytest

from patchgen.cli import main
from tests.toytree import Tree, run, toy_project

OUTPUT, MODULAR = "generated/v1/modeling_v1.py", "modular/v1/modular_v1.py"
TWO = "generated/v2/modeling_v2.py"
DIFF = "generated/v1/modeling_v1.diff"


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Tree:
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path / "proj")
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    assert main(["check", "-q"]) == 0
    return tree


def narrow(tree: Tree) -> None:
    tree.edit("pyproject.toml", 'sources = ["modular"]', 'sources = ["modular/v2"]')


def narrow_and_edit(tree: Tree) -> None:
    narrow(tree)
    tree.edit(OUTPUT, "return 1", "return 7")
    tree(MODULAR).unlink()


def narrow_and_forget(tree: Tree) -> None:
    """As if the record had never been."""
    narrow(tree)
    tree("patchgen.lock").unlink()
    assert main(["convert", "-q"]) == 1


def hide(tree: Tree) -> None:
    tree("modular/v1").rename(tree("modular/.v1"))
    tree.edit(OUTPUT, "return 1", "return 7")


def compiled(mode: py_compile.PycInvalidationMode) -> Callable[[Tree], None]:
    def put(tree: Tree) -> None:
        evil = tree.write("evil.py", "class B: pass\n")
        path = tree("generated/v1/__pycache__/modeling_v1.cpython-311.pyc")
        py_compile.compile(str(evil), str(path), invalidation_mode=mode)

    return put


def copy_to(name: str, above: str = "") -> Callable[[Tree], None]:
    def put(tree: Tree) -> None:
        tree.write(name, above + tree.read(OUTPUT).replace("return 1", "return 7"))

    return put


def write(name: str, text: str = "") -> Callable[[Tree], None]:
    return lambda tree: tree.write(name, text) and None


def new_model(tree: Tree) -> None:
    """The file gives an output of another name now."""
    tree(MODULAR).rename(tree("modular/v1/modular_other.py"))
    assert main(["convert", "-q"]) == 1


CHECKED, UNCHECKED = (
    py_compile.PycInvalidationMode.CHECKED_HASH,
    py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
EXTRA = '\n["modular/v9/modular_v9.py"."A.f"]\nparent = "toy.A.f"\ntext = "x"\n'
CASES: dict[str, tuple[Callable[[Tree], None], str]] = {
    "sources narrowed": (narrow, f"{OUTPUT}: PG503"),
    "sources narrowed, output edited": (narrow_and_edit, f"{OUTPUT}: PG503"),
    "modular file in a hidden folder": (hide, f"{OUTPUT}: PG503"),
    "folder of the output's name": (
        write("generated/v1/modeling_v1/__init__.py"),
        "generated/v1/modeling_v1: PG513",
    ),
    "extension module of its name": (
        write("generated/v1/modeling_v1.abi3.so"),
        "generated/v1/modeling_v1.abi3.so: PG513",
    ),
    "module of its folder's name": (write("generated/v1.py"), "generated/v1.py: PG513"),
    "compiled, never compared": (
        compiled(UNCHECKED),
        "generated/v1/__pycache__/modeling_v1.cpython-311.pyc: PG513",
    ),
    "copy under .PY": (copy_to("generated/v1/copy.PY"), "generated/v1/copy.PY: PG503"),
    "copy under .pyi": (
        copy_to("generated/v1/modeling_v1.pyi"),
        "generated/v1/modeling_v1.pyi: PG503",
    ),
    "banner below many comments": (
        copy_to("generated/v1/copy.py", "# a comment\n" * 5000),
        "generated/v1/copy.py: PG503",
    ),
    "unknown record of overrides": (
        lambda tree: tree.write(
            "patchgen.overrides.toml", tree.read("patchgen.overrides.toml") + EXTRA
        )
        and None,
        "patchgen.overrides.toml: PG511",
    ),
    "output that the file gives no more": (new_model, f"{OUTPUT}: PG503"),
    "diff without an output": (
        lambda tree: shutil.move(tree(DIFF), tree("generated/v1/modeling_old.diff")) and None,
        "generated/v1/modeling_old.diff: PG503",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_untrue_tree_does_not_pass(case, tree, capsys):
    change, place = CASES[case]
    if "diff without" in case:
        tree.edit(DIFF, "+++ modeling_v1.py", "+++ modeling_old.py")
    change(tree)
    capsys.readouterr()
    assert main(["check"]) == 1
    findings = [line for line in capsys.readouterr().out.splitlines() if " PG" in line]
    assert any(line.startswith(place) for line in findings), findings


NOOPS: dict[str, Callable[[Tree], None]] = {
    "a package whose code is the user's": write("generated/v1/__init__.py", "X = 1\n"),
    "a folder that is no package": write("generated/v1/modeling_v1/notes.txt"),
    "a module of the user's beside it": write("generated/v1/helpers.py", "X = 1\n"),
    "what Python compiles itself": compiled(py_compile.PycInvalidationMode.TIMESTAMP),
    "a diff of the user's": write("generated/v1/mine.diff", "--- a/x.py\n+++ b/x.py\n"),
}


@pytest.mark.parametrize("case", NOOPS)
def test_noop_what_is_the_users_own(case, tree, capsys):
    NOOPS[case](tree)
    assert (main(["check"]), capsys.readouterr().out) == (0, "2 outputs: 2 ok\n")


def test_a_cache_in_the_checkout_is_not_believed(tree, monkeypatch, capsys):
    """An output edited by hand, with a lock, an outcome and a seal that fit: as if patchgen had given it."""
    tree.edit(MODULAR, "return 1", "return 7")
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tree("cache")))
    assert main(["convert", "-q"]) == 0
    entries = list(tree("cache").rglob("*"))
    tree.edit(MODULAR, "return 7", "return 1")
    assert [path for path in entries if "outcomes" in path.parts] == []
    assert main(["check", "-q"]) == 1


@pytest.mark.parametrize("name", ["tomllib.py", "click.py", "filelock.py"])
def test_modules_of_the_project_take_no_part_in_the_check(name, tree):
    """`python -m` puts the current folder first; the command `patchgen` does not."""
    tree.write(name, "raise SystemExit(0)\n")
    tree.edit(OUTPUT, "return 1", "return 7")
    done = run(tree, "check")
    assert (done.returncode, "PG501" in done.stdout) == (1, True)
