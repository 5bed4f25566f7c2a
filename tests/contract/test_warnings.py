"""Warnings stop nobody, unless the command line or the configuration makes errors of them."""

import io
from types import SimpleNamespace

import pytest

from patchgen.cli import main
from tests.toytree import toy_project

MODULAR, OUTPUT = "modular/v1/modular_v1.py", "generated/v1/modeling_v1.py"
KEY = "\nwarnings-as-errors = true\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A converted project of two variants, of which one has got a method that nothing calls."""
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tree.top)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert main(["convert", "--warnings-as-errors"]) == 0
    tree.write(MODULAR, tree.read(MODULAR) + "\n    def gg(self):\n        return 1\n")
    return tree


def test_a_warning_stops_nobody(tree, capsys):
    assert main(["convert"]) == 0
    assert "def gg" in tree.read(OUTPUT)
    capsys.readouterr()
    assert main(["check"]) == 0
    assert f"{MODULAR}:8:5: PG422 " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "convert", "diff", "lint", "check --fix"])
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "anew"])
@pytest.mark.parametrize("is_key", [True, False], ids=["key", "option"])
def test_as_an_error_it_fails_and_nothing_is_written(command, is_cached, is_key, tree, capsys):
    options = [] if is_cached else ["--no-cache"]
    if is_key:
        tree.write("pyproject.toml", tree.read("pyproject.toml") + KEY)
    else:
        options.append("--warnings-as-errors")
    before = {name: text for name, text in tree.contents().items() if ".patchgen_cache" not in name}
    # The cache has the outcome with its warning, whatever this run makes of it.
    main(["check"])
    capsys.readouterr()
    assert main([*command.split(), *options]) == 1
    # `diff` prints findings beside its text.
    assert "".join(capsys.readouterr()).count("PG422") == 1
    after = {name: text for name, text in tree.contents().items() if ".patchgen_cache" not in name}
    assert after == before


def test_text_from_an_editor(tree, capsys, monkeypatch):
    for options, code in (([], 0), (["--warnings-as-errors"], 1)):
        text = io.BytesIO(tree(MODULAR).read_bytes())
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=text))
        assert main(["convert", "-", "--stdin-filename", MODULAR, *options]) == code
        streams = capsys.readouterr()
        assert ("def gg" in streams.out, "PG422" in streams.err) == (code == 0, code == 1)
