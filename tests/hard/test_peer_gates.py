"""What lets gates elsewhere say that all is well.  None of it may be found here."""

from __future__ import annotations

import re
import shutil

import pytest

from patchgen.cli import main
from tests.toytree import REPOSITORY, run, toy_project, variant

ONE = "generated/v1/modeling_v1.py"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Two variants of a toy parent, converted."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    tree = toy_project(tmp_path / "proj")
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    return tree


@pytest.fixture
def cli(tree, capsys):
    """The exit code and all that is said; nothing may be written."""

    def ask(*argv: str) -> tuple[int, str]:
        before = tree.snapshot()
        capsys.readouterr()
        code = main([*argv])
        assert tree.snapshot() == before
        output = capsys.readouterr()
        return code, output.out + output.err

    return ask


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            variant("Aa"),
            r"modular_v1\.py:4:10: PG103 toy\.modeling_toy defines no Aa\n    hint: did you mean A",
        ),
        (
            "from toy import modeling_toy as toy\n\nfrom patchgen.edits import edit, new, old\n\n\nclass A(toy.A):\n"
            '    @edit("ff")\n    def wrong(self):\n        with old:\n            return 1\n'
            "        with new:\n            return 2\n",
            r"modular_v1\.py:7:\d+: PG3\d\d .*ff",
        ),
    ],
    ids=["class", "method"],
)
def test_a_declaration_of_what_is_not_there(text, says, tree, cli):
    tree.write("modular/v1/modular_v1.py", text)
    for command in ("check", "convert"):
        code, output = cli(command)
        assert code == 1 and re.search(says, output), output


def test_a_release_in_which_no_declaration_loads(tree, cli, tmp_path):
    shutil.copytree(tree("lib"), tmp_path / "next")
    (tmp_path / "next/toy/modeling_toy.py").write_text("class Z:\n    pass\n", encoding="utf-8")
    code, output = cli("check", "--package-root", str(tmp_path / "next"))
    assert code == 1
    for number in (1, 2):
        assert re.search(rf"modular/v{number}/modular_v{number}\.py:4:\d+: PG103", output), output


@pytest.mark.parametrize("argv", [["check"], ["check", "moduler"]], ids=["configured", "asked for"])
def test_a_mistyped_folder(argv, tree, cli):
    if len(argv) == 1:
        tree.edit("pyproject.toml", '["modular"]', '["moduler"]')
    code, output = cli(*argv)
    assert code != 0 and "moduler" in output, output


def test_an_output_whose_declaration_is_gone(tree, cli):
    tree("modular/v1/modular_v1.py").unlink()
    code, output = cli("check")
    assert code == 1 and re.search(rf"{ONE}.* is orphaned", output), output


def test_every_error_of_every_file_in_one_run(tree, cli):
    tree.write("modular/v1/modular_v1.py", variant("Aa"))
    tree.write("modular/v0/modular_v0.py", "class (:\n")
    tree.edit("generated/v2/modeling_v2.py", "return 2", "return 3")
    code, output = cli("check")
    assert code == 1 and "Traceback" not in output
    for place in (
        r"modular_v0\.py:1:\d+: PG",
        r"modular_v1\.py:4:\d+: PG103",
        r"modeling_v2\.py:\d+:\d+: PG501",
    ):
        assert re.search(place, output), output
    assert output.count(" PG") == 3, output


def test_messages_point_at_the_line_that_is_wrong(tree, cli):
    tree.write("modular/v1/modular_v1.py", variant("Aa"))
    output = cli("check")[1]
    places = re.findall(r"^(\S+?):(\d+):(\d+): PG", output, re.MULTILINE)
    assert places
    for path, line, column in places:
        assert tree(path).is_file() and tree.read(path).splitlines()[int(line) - 1][
            int(column) - 1 :
        ].startswith("toy.Aa")


def test_another_version_makes_nothing_stale(tree, cli, monkeypatch):
    assert not re.search(r"\b\d+\.\d+\.\d+\b", tree.read(ONE))
    monkeypatch.setattr("patchgen.__version__", "99.0.0")
    tree.write(
        "lib/toy/__init__.py",
        '"""A release that changes nothing of this."""\n\n__version__ = "2.0.0"\n',
    )
    assert cli("check", "--no-cache") == (0, "2 outputs: 2 ok\n")


def test_what_changed_in_the_parent_is_named(tree, cli):
    tree.edit("lib/toy/modeling_toy.py", "return helper(1)", "return helper(2)")
    code, output = cli("check")
    assert code == 1 and "PG501 is stale: the parent changed: toy.modeling_toy.A" in output, output


def test_nothing_of_the_users_is_run(tree):
    """Neither a declaration nor its parent; torch and transformers: tests/contract/test_imports.py."""
    spell = 'open("ran", "w").close()\n'
    tree.write(
        "modular/v1/modular_v1.py",
        tree.read("modular/v1/modular_v1.py") + "\n\n" + f"CAST = {spell}",
    )
    tree.write("lib/toy/modeling_toy.py", tree.read("lib/toy/modeling_toy.py") + f"MADE = {spell}")
    done = run(tree, "convert")
    assert done.returncode == 0, done.stderr
    assert spell.strip() in tree.read(ONE) and not tree("ran").exists()


def test_an_unknown_model_is_an_error(tree, cli):
    pytest.importorskip("transformers")
    code, output = cli("new", "lama", "--with", "checkpoint")
    assert code != 0 and "lama" in output and "llama" in output, output


def test_nothing_generated_patches_what_is_imported():
    """No file of the gallery assigns to an attribute of what it imports, so there is nothing to be left installed."""
    import ast

    files = sorted((REPOSITORY / "generated").rglob("*.py"))
    assert len(files) > 20
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        imported = {
            alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names
        }
        written = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        patched = [
            node
            for node in written
            if isinstance(node.value, ast.Name) and node.value.id in imported
        ]
        assert not patched, [f"{path}:{node.lineno}" for node in patched]
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        assert not [
            node.lineno
            for node in calls
            if node.func.id == "setattr"
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in imported
        ]
