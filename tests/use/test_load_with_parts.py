"""`patchgen.load(checkpoint, parts=...)`: what `new` writes, flattened into the cache, and loaded."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.qwen3 import modeling_qwen3 as qwen3

import patchgen
from patchgen.cli import main
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    model = qwen3.Qwen3ForCausalLM(tiny_config(qwen3.Qwen3Config))
    draw_weights(model)
    model.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def written_below(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def said(capsys):
    """What patchgen says, beside the bars of transformers."""
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if line.startswith("patchgen:")]


def loss_of(model):
    return model.train()(**batch("right").inputs()).loss


def test_it_is_the_model_with_the_parts(checkpoint, capsys):
    model = patchgen.load(checkpoint, parts="loss, norm")
    (line,) = said(capsys)
    path = Path(line.removeprefix("patchgen: qwen3_loss_norm is "))
    assert path.is_file()
    assert type(model).__module__ == f"patchgen_models.qwen3.{path.stem}"
    assert torch.allclose(loss_of(model), loss_of(AutoModelForCausalLM.from_pretrained(checkpoint)))
    before = written_below(checkpoint.parent)
    again = patchgen.load(checkpoint, parts=["loss", "norm"])
    assert type(again) is type(model)
    assert said(capsys) == []
    assert written_below(checkpoint.parent) == before


def test_the_file_is_what_the_commands_give(checkpoint, capsys):
    patchgen.load(checkpoint, parts="norm")
    (line,) = said(capsys)
    path = Path(line.removeprefix("patchgen: qwen3_norm is "))
    project = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
    (checkpoint.parent / "pyproject.toml").write_text(project)
    assert main(["new", "qwen3", "--with", "norm", "--no-proof"]) == 0
    assert main(["convert", "-q"]) == 0
    capsys.readouterr()
    generated = checkpoint.parent / "generated/qwen3/modeling_qwen3_norm.py"
    assert path.read_text() == generated.read_text()


@pytest.mark.parametrize(
    ("kind", "parts", "why"),
    [
        ("qwen3", "fats", "PG802 .*fast"),
        ("qwen3", "sdpa", "nothing is left to write: sdpa: .*takes SDPA already"),
        ("bamba", "moe", "PG803"),
        ("vit", "loss", "PG803"),
    ],
)
def test_what_cannot_be_written_is_said(kind, parts, why, checkpoint):
    config = AutoConfig.for_model(kind)
    with pytest.raises(ValueError, match=f"(?s){why}"):
        patchgen.load(checkpoint, parts=parts, config=config)


def test_one_or_two_names(checkpoint):
    for names, parts in (((checkpoint,), ""), (("llama_loss", checkpoint), "loss"), ((), "loss")):
        with pytest.raises(TypeError, match="a checkpoint and parts="):
            patchgen.load(*names, parts=parts)


@pytest.mark.slow
def test_it_is_proven_on_request(checkpoint, capsys):
    assert patchgen.load(checkpoint, parts="fast", verify=True) is not None
    assert "qwen3_fast is without sdpa" in "".join(said(capsys))
