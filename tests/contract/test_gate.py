"""Each failure of the gate, provoked on a project of two variants: exit 1, each named, the tree left as it was."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from patchgen.cli import main
from tests.toytree import REPOSITORY, Tree

LLAMA, GPT2 = "generated/llama/modeling_llama_loss.py", "generated/gpt2/modeling_gpt2_loss.py"
MODULAR, MODULAR_GPT2 = "modular/llama/modular_llama_loss.py", "modular/gpt2/modular_gpt2_loss.py"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the files of transformers"
)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Two variants of the gallery, converted, so that only what a test does to them is wrong."""
    tree = Tree(tmp_path_factory.mktemp("gate") / "proj")
    for name in ("pyproject.toml", MODULAR, MODULAR_GPT2):
        tree.write(name, (REPOSITORY / name).read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tree.top)
        assert main(["convert", "-q"]) == 0
        assert main(["check", "-q"]) == 0
    return tree


@pytest.fixture
def tree(converted, monkeypatch):
    """The copy, put back after the test."""
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(converted.top)
    before = converted.contents()
    yield converted
    for name in set(converted.files()) - set(before):
        converted(name).unlink()
    for name, data in before.items():
        if not converted(name).exists() or converted(name).read_bytes() != data:
            converted(name).parent.mkdir(parents=True, exist_ok=True)
            converted(name).write_bytes(data)


@pytest.fixture
def findings(tree, capsys):
    """What a check finds that must fail and must not write."""

    def check(*argv: str) -> list[str]:
        before = tree.snapshot()
        capsys.readouterr()
        assert main(["check", *argv]) == 1
        assert tree.snapshot() == before
        out = capsys.readouterr().out
        return [line for line in out.splitlines() if " PG" in line]

    return check


def test_edited_output(tree, findings):
    tree.edit(LLAMA, "class LlamaModel", "class LlamaModell")
    (finding,) = findings()
    assert finding.startswith(f"{LLAMA}:")
    assert "PG501 is stale: modeling_llama_loss.py was edited by hand" in finding


def test_edited_modular_file(tree, findings):
    tree.write(MODULAR, tree.read(MODULAR) + "\n\nEXTRA = 1\n__all__ = ['EXTRA']\n")
    assert any(line.startswith((LLAMA, MODULAR)) for line in findings())


def test_deleted_output(tree, findings):
    tree(LLAMA).unlink()
    assert findings() == [f"{LLAMA}: PG502 is missing; {MODULAR} gives it"]


def test_orphan(tree, findings):
    tree(MODULAR).unlink()
    assert findings() == [f"{LLAMA}: PG503 is orphaned: {MODULAR} is gone"]


def test_misspelt_class(tree, findings):
    tree.edit(MODULAR, "llama.LlamaForCausalLM)", "llama.LlamaForCasualLM)")
    (finding,) = findings()
    assert finding.startswith(f"{MODULAR}:")
    assert "LlamaForCasualLM" in finding


def test_misspelt_folder_of_the_parent(tree, findings):
    tree.edit(MODULAR, "transformers.models.llama", "transformers.models.lama")
    assert all(line.startswith(f"{MODULAR}:") and "lama" in line for line in findings())


def test_misspelt_folder_on_the_command_line(tree, findings):
    assert findings("modular/lama") == ["modular/lama: PG506 does not exist"]


def test_two_errors_in_two_files(tree, findings):
    tree.edit(MODULAR, "llama.LlamaForCausalLM)", "llama.LlamaForCasualLM)")
    tree.edit(GPT2, "class GPT2Model(", "class GPT2Modell(")
    assert [line.partition(":")[0] for line in findings()] == [GPT2, MODULAR]


def test_other_parent(tree, findings, tmp_path):
    package = Path(importlib.util.find_spec("transformers").origin).parent
    for name in ("__init__.py", "models/__init__.py"):
        (tmp_path / "transformers" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package / name, tmp_path / "transformers" / name)
    shutil.copytree(package / "models/llama", tmp_path / "transformers/models/llama")
    parent = tmp_path / "transformers/models/llama/modeling_llama.py"
    parent.write_text(
        parent.read_text().replace(
            "class LlamaMLP(nn.Module):", "class LlamaMLP(nn.Module):\n    new = 1\n"
        )
    )
    (finding,) = [
        line for line in findings("--package-root", str(tmp_path)) if line.startswith(f"{LLAMA}:")
    ]
    assert (
        "is stale: the parent changed: transformers.models.llama.modeling_llama.LlamaMLP" in finding
    )
