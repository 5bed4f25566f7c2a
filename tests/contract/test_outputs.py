"""Every checked-in output is sound by other tools' judgement, and made again it is not touched."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import black
import pytest

from patchgen.cli import main
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.formatting.format import ruff_program as ruff
from tests.toytree import REPOSITORY, Tree, environment

OUTPUTS = sorted((REPOSITORY / "generated").rglob("*.py"))
# Black takes a second or two a file.
QUICK = ("modeling_bert_moe", "configuration_llama_moe")

# In a process that has no patchgen: the finder refuses it.
IMPORT = """
import importlib, importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("patchgen", "modular"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    absent = [each for each in getattr(module, "__all__", ()) if not hasattr(module, each)]
    assert not absent, (name, absent)
"""


def test_compiles() -> None:
    for path in OUTPUTS:
        compile(path.read_text(encoding="utf-8"), path.name, "exec", dont_inherit=True)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in OUTPUTS
    ],
)
def test_is_stable_under_black(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    mode = black.Mode(line_length=119)
    formatted = black.format_str(text, mode=mode)
    black.assert_equivalent(text, formatted)
    black.assert_stable(text, formatted, mode)


def test_no_name_is_undefined_or_defined_twice() -> None:
    rules = ["--isolated", "--no-cache", "--select", "F821,F822,F811", "--output-format", "concise"]
    done = subprocess.run(
        [ruff(), "check", *rules, *OUTPUTS], capture_output=True, text=True, check=False
    )
    assert OUTPUTS and done.returncode == 0, done.stdout


def test_nothing_of_patchgen_is_imported() -> None:
    of_ours = re.compile(r"^\s*(from|import)\s+(patchgen|modular)\b", re.MULTILINE)
    found = [path.name for path in OUTPUTS if of_ours.search(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_imports_in_a_fresh_process() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    names = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in OUTPUTS]
    argv = [sys.executable, "-c", IMPORT, *names]
    done = subprocess.run(
        argv, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_formatting_changes_nothing() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in OUTPUTS}
    assert format_texts(texts, Settings()) == texts


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the files of transformers"
)
def test_made_again_nothing_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither bytes nor times, from an empty cache and with `--force`."""
    tree = Tree(tmp_path / "proj")
    tree.top.mkdir()
    shutil.copy(REPOSITORY / "pyproject.toml", tree("pyproject.toml"))
    shutil.copytree(
        REPOSITORY / "modular/bert",
        tree("modular/bert"),
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q", "--no-cache"]) == 0
    before = tree.snapshot()
    assert sum(name.startswith("generated/") for name in before) > 10
    for argv in (["--no-cache"], ["--force"]):
        assert main(["convert", "-q", *argv]) == 0
        assert tree.snapshot() == before, argv
