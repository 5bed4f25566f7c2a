"""`patchgen lint` on a tree of transformers: exit status, formats, and what the cache may believe."""

from __future__ import annotations

import json

import pytest

from patchgen.cli import main
from patchgen.upstream.convert import convert
from patchgen.upstream.files import Files

PARENT = """from torch import nn


class OldLayer(nn.Module):
    def forward(self, x):
        raise ValueError("the oldest one")
"""
CHILD = """from ..old.modeling_old import OldLayer


class NewLayer(OldLayer):
    pass
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A package with one modular file and its output, seen from a project elsewhere."""
    for name, text in {
        "transformers/__init__.py": "",
        "transformers/models/__init__.py": "",
        "transformers/models/old/__init__.py": "",
        "transformers/models/new/__init__.py": "",
        "transformers/models/old/modeling_old.py": PARENT,
        "transformers/models/new/modular_new.py": CHILD,
    }.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ship(tmp_path / "tree")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/pyproject.toml").write_text("[tool.patchgen]\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "tree"


def ship(tree):
    """Write the outputs as transformers would."""
    path = tree / "transformers/models/new/modular_new.py"
    for output in convert(path, Files().text):
        path.with_name(f"{output.kind}_new.py").write_text(output.text)


def lint(tree, *options):
    return main(["lint", "--package-root", str(tree), *options, str(tree / "transformers")])


def test_findings_give_1(tree, capsys):
    assert lint(tree) == 1
    out, err = capsys.readouterr()
    assert out.startswith(
        "transformers/models/new/modular_new.py:4:1: PG705 `oldest` is shipped as `newest`"
    )
    assert err.startswith("1 modular file") and ", 1 finding" in err


def test_nothing_gives_0(tree, capsys):
    (tree / "transformers/models/old/modeling_old.py").write_text(PARENT.replace("oldest", "first"))
    ship(tree)
    assert lint(tree) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_a_finding_is_a_warning(form, tree, capsys):
    assert lint(tree, "--output-format", form) == 1
    out = capsys.readouterr().out
    found = json.loads(out)["problems"][0]["severity"] if form == "json" else out
    assert "warning" in found


def test_what_is_cached_is_what_is_found(tree, capsys):
    assert lint(tree) == 1
    first = capsys.readouterr().out
    assert lint(tree) == 1
    assert capsys.readouterr().out == first


def test_the_cache_sees_an_output_go_and_come(tree, capsys):
    output = tree / "transformers/models/new/modeling_new.py"
    text = output.read_text()
    output.unlink()
    assert lint(tree) == 1
    assert "PG710" in capsys.readouterr().out
    output.write_text(text)
    assert lint(tree) == 1
    assert "PG710" not in capsys.readouterr().out


def test_nothing_is_written(tree, capsys):
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    lint(tree)
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


LAYER = """from torch import nn


class OldLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width = config.width
"""
CALLS_WITHOUT = """from ..old.modeling_old import OldLayer


class NewLayer(OldLayer):
    def __init__(self, config, wide):
        super().__init__()
        self.wide = wide
"""


def test_a_call_that_python_would_refuse_is_reported_once_with_the_reason(tree, capsys):
    (tree / "transformers/models/old/modeling_old.py").write_text(LAYER)
    (tree / "transformers/models/new/modular_new.py").write_text(CALLS_WITHOUT)
    ship(tree)
    assert lint(tree) == 1
    (found,) = [line for line in capsys.readouterr().out.splitlines() if " PG" in line]
    assert found == (
        "transformers/models/new/modular_new.py:5:5: PG729 NewLayer.__init__ passes other arguments in "
        "`super().__init__()`, which are ignored; in Python OldLayer.__init__ misses the argument config"
    )
