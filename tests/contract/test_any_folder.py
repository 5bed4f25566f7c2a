"""A file converts in any folder as in any other, from any folder, by any of the commands, to the same bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from patchgen.cli import main
from tests.toytree import PARENT, REPOSITORY, Tree, environment, run, toy_project, variant

FOLDERS = ["my-var", "my var", "a.b", "1st", "class", "plain", "ünï", "deep-er/and er"]
MODULAR = """from toy import modeling_toy as toy

from . import more
from .more import HALF, half


class A(more.Mixin, toy.A):
    def f(self):
        return half(super().f()) + HALF
"""
BESIDE = """HALF = 0.5


def half(x):
    return x * HALF


class Mixin:
    def mixed(self):
        return half(4)
"""


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_any_name_in_a_project(folder, tmp_path, monkeypatch):
    tree = toy_project(tmp_path / "proj", variants=0)
    tree.write(f"modular/{folder}/modular_x.py", MODULAR)
    tree.write(f"modular/{folder}/more.py", BESIDE)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    space = {"__name__": "flat"}
    exec(tree.read(f"generated/{folder}/modeling_x.py"), space)
    assert (space["A"]().f(), space["A"]().mixed()) == (1.0, 2.0)
    assert main(["check", "-q"]) == 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_any_name_without_a_project(folder, tmp_path, monkeypatch):
    """Of `toy` nothing is declared, so it is imported; what is imported by a dot is carried."""
    tree, other = Tree(tmp_path / "alone" / folder), toy_project(tmp_path / "proj", variants=1)
    text = MODULAR.replace("from toy import modeling_toy as toy", "from . import own").replace(
        "toy.A", "own.A"
    )
    for name, content in (("modular_x.py", text), ("more.py", BESIDE), ("own.py", PARENT)):
        tree.write(name, content)
    before, outputs = tree.files(), set()
    for number, place in enumerate(["/", tree.top, tree.top.parent, other.top]):
        monkeypatch.chdir(place)
        out = tmp_path / f"out{number}"
        assert main(["convert", "-q", str(tree("modular_x.py")), "--out", str(out)]) == 0
        assert main(["check", "-q", str(tree("modular_x.py")), "--out", str(out)]) == 0
        outputs.add((out / "modeling_x.py").read_bytes())
    (output,) = outputs
    assert (
        "\n# Modified from .own; what was changed stands in the diff beside this file.\n"
        in output.decode()
    )
    space = {"__name__": "flat"}
    exec(output, space)
    assert (space["A"]().f(), space["A"]().mixed()) == (1.0, 2.0)
    assert tree.files() == before
    assert not other("patchgen.lock").exists()


def test_a_sibling_that_is_not_there_is_named_as_it_is_imported(tmp_path, capsys):
    tree = Tree(tmp_path / "my-var")
    tree.write("helpers.py", "class A:\n    pass\n")
    path = tree.write("modular_x.py", "from .helper import A as B\n\n\nclass A(B):\n    pass\n")
    assert main(["check", str(path)]) == 1
    hint = "    hint: the folder my-var has no helper; did you mean helpers?\n"
    assert f"modular_x.py:4:9: PG101 no module named .helper\n{hint}" in capsys.readouterr().out


@pytest.mark.parametrize("package", [True, False], ids=["package", "folder"])
def test_the_nearest_pyproject_above_the_file_decides(package, tmp_path, monkeypatch):
    mine = toy_project(tmp_path / "mine", variants=1)
    other = toy_project(tmp_path / "mine/inner", variants=1)
    other.edit("pyproject.toml", "generated", "elsewhere")
    if package:
        other.write("modular/v1/__init__.py", "")
    monkeypatch.chdir(mine.top)
    assert main(["convert", "-q", "inner/modular/v1/modular_v1.py"]) == 0
    assert other("elsewhere/v1/modeling_v1.py").exists()
    assert not mine("generated").exists()


def with_imports(tree, imports, names):
    """The variant of `tree` imports more, and uses it."""
    text = variant("A", "VALUE").replace("'VALUE'", f"({', '.join(names)})")
    tree.write("modular/v1/modular_v1.py", imports + text)


@pytest.mark.parametrize("start", ["module", "script"])
def test_nothing_in_the_current_folder_changes_a_byte(start, tmp_path):
    tree = toy_project(tmp_path / "proj", variants=1)
    with_imports(tree, "import torch\nfrom other import x\n\n", ["torch", "x"])
    assert run(tree, "convert").returncode == 0
    wrong = Tree(tmp_path / "wrong")
    for package in ("torch", "other", "toy", "transformers"):
        wrong.write(f"{package}/__init__.py", "")
    wrong.write("toy/modeling_toy.py", PARENT.replace("sqrt", "cbrt"))
    wrong.write("ruff.toml", "line-length = 20\n")
    wrong.write("pyproject.toml", "[tool.black]\nline-length = 20\n")
    program = [sys.executable, "-m", "patchgen", "check"]
    if start == "script":
        program = [sys.executable, str(REPOSITORY / "utils/check_modular.py")]
    env = environment(RUFF_LINE_LENGTH="20", RUFF_CONFIG=str(wrong("ruff.toml")))
    argv = [*program, "--no-cache", str(tree("modular/v1"))]
    done = subprocess.run(argv, cwd=wrong.top, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 output: 1 ok\n"), done.stdout + done.stderr


def test_a_package_of_the_project_is_its_own_from_everywhere(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=1)
    tree.write("mine/__init__.py", "x = 1\n")
    with_imports(
        tree, "import zlib\n\nimport torch\nfrom mine import x\n\n", ["torch", "x", "zlib"]
    )
    assert run(tree, "convert").returncode == 0
    assert "import torch\n\nfrom mine import x\n" in tree.read("generated/v1/modeling_v1.py")
    assert run(tree, "check", "--no-cache", str(tree("modular")), cwd="/").returncode == 0
    shutil.rmtree(tree("mine"))  # it is known by its folder, which the cache must notice
    assert run(tree, "check").returncode == run(tree, "check", "--no-cache").returncode == 1


def test_paths_of_two_projects_are_refused(tmp_path, monkeypatch, capsys):
    for name in ("one", "two"):
        toy_project(tmp_path / name, variants=1)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "one/modular", "two/modular/v1/modular_v1.py"]) == 2
    assert "PG913 the paths belong to several projects" in capsys.readouterr().err
