"""A folder of the repository called `transformers` must not pass for the release."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

import patchgen
from patchgen.cli import main
from tests.toytree import Tree, toy_project

RELEASE = version("transformers")
MODULE = "models/mpnet/modeling_mpnet.py"
VARIANT = '''"""A variant."""

from transformers.models.mpnet import modeling_mpnet as mpnet


class MPNetIntermediate(mpnet.MPNetIntermediate):
    def forward(self, hidden_states):
        return self.dense(hidden_states)
'''


def installed(name):
    from importlib.util import find_spec

    return Path(find_spec("transformers").origin).parent / name


def write_all_of_it(tree, top):
    """A package that hides the whole release."""
    write_one_file(tree, top)
    for folder in ("", "models", "models/mpnet"):
        tree.write(f"{top}transformers/{folder}/__init__.py", "__version__ = '9.9.9'\n")


def write_one_file(tree, top):
    """A folder that is no package: all other modules are the release's."""
    text = (
        installed(MODULE).read_text(encoding="utf-8").replace("self.dense(", "self.dense(0 * ", 1)
    )
    tree.write(f"{top}transformers/{MODULE}", text)


def write_a_part(tree, top):
    """patchgen's own parts are copied into outputs too."""
    part = Path(patchgen.__file__).parent / "parts" / "norm.py"
    text = part.read_text(encoding="utf-8").replace("return", "pass; return", 1)
    tree.write(f"{top}patchgen/parts/norm.py", text)
    tree.write(
        f"{top}patchgen/edits.py",
        (Path(patchgen.__file__).parent / "edits.py").read_text(encoding="utf-8"),
    )
    tree.edit(
        "modular/a/modular_a.py",
        "\n\nclass",
        "\nfrom patchgen.parts.norm import *  # noqa\n\n\nclass",
    )


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = Tree(tmp_path)
    tree.write("pyproject.toml", '[tool.patchgen]\nsources = ["modular"]\nroots = ["lib"]\n')
    tree.write("modular/a/modular_a.py", VARIANT)
    tree.write("lib/own/__init__.py", "")
    monkeypatch.chdir(tmp_path)
    return tree


@pytest.fixture(params=[(write_all_of_it, ""), (write_one_file, ""), (write_one_file, "lib/")])
def hidden(request, tree):
    write, top = request.param
    write(tree, top)
    return f"{top}transformers/{'__init__.py' if write is write_all_of_it else MODULE}"


def test_it_is_said_in_every_form(hidden, tree, capsys):
    assert main(["convert"]) == 0
    where = f"{hidden}: PG514 stands in the place of transformers {RELEASE}: modular/a/modular_a.py takes"
    assert where in capsys.readouterr().out
    assert main(["check"]) == 0
    text = capsys.readouterr().out
    assert where in text
    assert main(["check", "--output-format", "github"]) == 0
    assert f"::warning title=patchgen (PG514),file={hidden}::" in capsys.readouterr().out
    assert main(["check", "--output-format", "json"]) == 0
    (parents,) = json.loads(capsys.readouterr().out)["parents"]
    assert (parents["path"], parents["instead_of"]) == (hidden, RELEASE)


@pytest.mark.parametrize(
    "argv", [["convert"], ["check"], ["check", "--fix"], ["diff"], ["lint"], ["list"]], ids=" ".join
)
@pytest.mark.parametrize("release", [RELEASE, "installed"])
def test_it_is_an_error_where_a_release_is_asked_for(argv, release, hidden, tree, capsys):
    before = tree.files()
    assert main([*argv, "--release", release]) == 1
    out, err = capsys.readouterr()
    assert f"{hidden}: PG514" in out + err
    assert tree.files() == before


def test_an_editor_that_asks_for_a_release(hidden, tree, capsys, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(VARIANT.encode())))
    argv = ["convert", "-", "--stdin-filename", "modular/a/modular_a.py", "--release", RELEASE]
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert not out
    assert "PG514" in err


def test_a_part_of_patchgen(tree, capsys):
    write_a_part(tree, "")
    main(["check", "--release", RELEASE])
    out = capsys.readouterr().out
    assert "patchgen/parts/norm.py: PG514 stands in the place of patchgen" in out


def test_torch(tree, capsys):
    """Its classes stay bases, unless they are the project's own code."""
    tree.write("torch/__init__.py", "from . import nn\n")
    tree.write(
        "torch/nn/__init__.py", "class Module:\n    def extra_repr(self):\n        return evil()\n"
    )
    tree.edit(
        "modular/a/modular_a.py",
        "    def forward",
        "    def extra_repr(self):\n        return super().extra_repr()\n\n    def forward",
    )
    main(["convert", "--release", RELEASE])
    out, err = capsys.readouterr()
    written = (
        "evil" in tree.read("modular/a/modeling_a.py")
        if tree("modular/a/modeling_a.py").exists()
        else False
    )
    assert "torch/nn/__init__.py: PG514" in out + err or not written


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (RELEASE, True),
        (RELEASE.rpartition(".")[0], True),
        (f"{RELEASE.rpartition('.')[0]}.*", True),
        ("4.0.0", False),
        (RELEASE[:-1], False),
    ],
)
def test_the_release_is_compared(asked, fits, tree, capsys):
    assert main(["convert", "--release", asked]) == (0 if fits else 1)
    assert ("PG514" in capsys.readouterr().err) is not fits


def test_the_same_text_is_the_release(tree, capsys):
    shutil.copytree(
        installed("models/mpnet"),
        tree.top / "lib/transformers/models/mpnet",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert main(["convert", "--release", RELEASE]) == 0
    assert "PG514" not in capsys.readouterr().out


def test_what_the_command_line_names(tree, capsys):
    write_all_of_it(tree, "fork/")
    shutil.copytree(
        installed("."),
        tree.top / "other/transformers",
        ignore=lambda folder, names: [
            n
            for n in names
            if n not in ("__init__.py", "models", "mpnet") and not n.endswith(".py")
        ],
    )
    for root in ("fork", "other"):
        main(["convert", "--package-root", root])
        out, err = capsys.readouterr()
        assert "PG514" not in out + err


def test_parents_of_the_project_are_said_and_not_refused(tmp_path, monkeypatch, capsys):
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tree.top)
    assert main(["convert", "--release", RELEASE]) == 0
    capsys.readouterr()
    assert main(["check", "-v"]) == 0
    assert "toy: parents come from lib/toy/" in capsys.readouterr().out
    assert main(["check", "--output-format", "json"]) == 0
    (parents,) = json.loads(capsys.readouterr().out)["parents"]
    assert (parents["package"], parents["instead_of"]) == ("toy", "")


def test_files_inside_a_copy_of_transformers(tmp_path, monkeypatch, capsys):
    """There, parents are the files beside them."""
    top = tmp_path / "src/transformers/models"
    for name in ("llama", "glm"):
        shutil.copytree(
            installed(f"models/{name}"), top / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for folder in (top, top.parent):
        (folder / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    main(["convert", "src/transformers/models/glm/modular_glm.py", "--release", RELEASE])
    out, err = capsys.readouterr()
    assert "PG514" not in out + err


@pytest.mark.parametrize(
    "command",
    [
        ("new", "mpnet", "--with", "checkpoint", "--dry-run"),
        ("adopt", "modular/a/modular_a.py"),
        ("rebase",),
        ("survive",),
    ],
    ids=lambda command: command[0],
)
def test_who_writes_declarations_says_whose_transformers_is_read(
    tmp_path, monkeypatch, capsys, command
):
    tree = toy_project(tmp_path)
    tree.write("modular/a/modular_a.py", VARIANT)
    write_all_of_it(tree, "")
    monkeypatch.chdir(tmp_path)
    main(list(command))
    said = f"transformers/__init__.py: PG514 stands in the place of transformers {RELEASE}"
    assert said in capsys.readouterr().err
