"""`verify --checkpoint`: a variant beside its parent on weights and text that the test writes.

The comparison runs in this process: a child would import torch once more for each test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shutil
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

from transformers import LlamaForCausalLM

import patchgen
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop import models
from patchgen.training.loop.texts import shipped_tokenizer
from patchgen.training.real import compare, found, run
from patchgen.verifying import variants as verified
from tests.checkpoint import write_checkpoint
from tests.contract.test_json import conforming
from tests.toytree import REPOSITORY
from tests.train.runs import TEXT

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    def answers_of(do, work, limits, stopped):
        answers = []
        with contextlib.redirect_stdout(io.StringIO()):  # Trainer prints
            do(work, SimpleNamespace(send=answers.append))
        return answers

    monkeypatch.setattr(run, "answers_of", answers_of)
    monkeypatch.setattr(compare, "silence_child", lambda: None)
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture
def verify(checkpoint, capsys):
    def words(*more, variant="llama_loss", weights=checkpoint, data=TEXT):
        given = ("--checkpoint", str(weights), "--data", str(data), "--length", "24")
        code = main(["verify", variant, *given, "--steps", "2", *more])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return words


def plant(monkeypatch):
    """A block of the variant gives a hundredth more than its parent's."""
    from generated.llama.modeling_llama_loss import LlamaMLP

    right = LlamaMLP.forward
    monkeypatch.setattr(LlamaMLP, "forward", lambda self, states: 1.01 * right(self, states))


def cases_of(done):
    data = conforming(done.out, "verify")
    return {case["case"]: case for case in data["cases"]}, data


def test_a_variant_is_proven(verify, tmp_path):
    done = verify("--out", str(tmp_path / "out"))
    assert done.code == 0, done.out + done.err
    assert done.out.startswith("llama_loss: proven\n")
    for case in ("logits", "states", "greedy text", "losses", "gradients"):
        assert f"real float32 {case}" in done.out
    page = (tmp_path / "out/real.md").read_text(encoding="utf-8")
    assert "| the embeddings | 0 | 0 |" in page and "LlamaForCausalLM of tiny" in page
    assert str(tmp_path) not in page
    data = json.loads((tmp_path / "out/real.json").read_text(encoding="utf-8"))
    assert [step["step"] for step in data["real"][0]["steps"]] == [1, 2]
    assert len(data["real"][0]["texts"]) == 3


def test_narrow_dtypes_are_measured_in_their_noise(verify):
    done = verify("--dtype", "bfloat16", "--steps", "0", "--output-format", "json")
    cases, data = cases_of(done)
    assert done.code == 0 and data["verdicts"]["llama_loss"]["verdict"] == "proven"
    assert cases["real bfloat16 logits"]["bound"] == 2.0
    assert data["real"][0]["steps"] == []


def test_a_picture_is_drawn_or_what_draws_it_is_named(verify, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = verify("--out", str(tmp_path), "--steps", "0")
    assert done.code == 0 and "No picture: matplotlib" in done.err and "[charts]" in done.err
    assert "No picture" in (tmp_path / "real.md").read_text(encoding="utf-8")


def test_a_picture(verify, tmp_path):
    pytest.importorskip("matplotlib")
    assert verify("--out", str(tmp_path), "--steps", "0").code == 0
    assert (tmp_path / found.PICTURE).read_text(encoding="utf-8").startswith("<?xml")


def test_an_error_names_the_first_layer(verify, monkeypatch):
    plant(monkeypatch)
    done = verify()
    assert done.code == 1
    assert "FAIL llama_loss: first drifts behind layer 0; " in done.out
    cases, _ = cases_of(verify("--output-format", "json", "--steps", "0"))
    assert cases["real float32 states"]["status"] == "FAIL"
    assert cases["real float32 states"]["difference"] > 1000


def test_a_loss_that_is_no_number_is_a_text_of_json(verify, monkeypatch, tmp_path):
    from generated.llama.modeling_llama_loss import LlamaMLP

    monkeypatch.setattr(LlamaMLP, "forward", lambda self, states: states * float("nan"))
    done = verify("--output-format", "json", "--out", str(tmp_path))
    assert done.code == 1

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    for text in (done.out, (tmp_path / "real.json").read_text(encoding="utf-8")):
        step = json.loads(text, parse_constant=refuse)["real"][0]["steps"][0]
        assert step["loss"] == "nan" and step["parent_loss"] > 0
    conforming(done.out, "verify")


def test_what_differs_on_purpose_has_figures_and_does_not_fail(verify, monkeypatch):
    plant(monkeypatch)
    whole = verified.describe_variant
    declared = {"differs": (("LlamaMLP", "a hundredth more"),)}
    monkeypatch.setattr(
        verified, "describe_variant", lambda *given: dataclasses.replace(whole(*given), **declared)
    )
    done = verify()
    assert done.code == 4 and "FAIL" not in done.out
    assert "not proven: it differs on purpose: real float32 logits" in done.out


def test_a_variant_that_raises_fails(verify, monkeypatch):
    from generated.llama.modeling_llama_loss import LlamaMLP

    monkeypatch.setattr(LlamaMLP, "forward", lambda self, states: states.view(7, 7))
    done = verify()
    assert done.code == 1 and "RuntimeError" in done.out


def test_dropout_is_off_and_settings_of_nobody_are_left(verify, checkpoint, tmp_path):
    folder = tmp_path / "dropping"
    shutil.copytree(checkpoint, folder)
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings |= {"attention_dropout": 0.5, "a_dropout_of_nobody": 0.5}
    path.write_text(json.dumps(settings), encoding="utf-8")
    done = verify(weights=folder)
    assert done.code == 0, done.out + done.err


def test_weights_that_the_checkpoint_lacks_are_named(verify, checkpoint, tmp_path):
    folder = tmp_path / "headless"
    model = LlamaForCausalLM.from_pretrained(checkpoint)
    model.model.save_pretrained(folder)
    shipped_tokenizer().save_pretrained(folder)
    done = verify("--steps", "0", weights=folder)
    assert done.code == 4
    assert "`lm_head.weight` is not in the checkpoint" in done.out.partition("\n")[0]


@pytest.mark.parametrize(
    ("variant", "lacks", "text", "said"),
    [
        (
            "bert_mlm",
            "",
            "Some text.",
            "is a llama, and generated.bert.modeling_bert_mlm takes bert",
        ),
        ("llama_loss", "tokenizer", "Some text.", "has no tokenizer"),
        ("llama_loss", "config.json", "Some text.", "configuration"),
        ("llama_loss", "model.safetensors", "Some text.", "cannot be loaded"),
        ("llama_loss", "", "", "is empty"),
        ("llama_loss", "", b"\xff\xfe", "is no text in UTF-8"),
        ("llama_loss", "", None, "cannot be read"),
    ],
    ids=["model", "tokenizer", "config", "weights", "empty", "bytes", "nothing"],
)
def test_what_is_refused(verify, checkpoint, tmp_path, monkeypatch, variant, lacks, text, said):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights, data = tmp_path / "weights", tmp_path / "data.txt"
    weights.mkdir()
    for path in checkpoint.iterdir():
        if not lacks or not path.name.startswith(lacks):
            (weights / path.name).write_bytes(path.read_bytes())
    if text is not None:
        data.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = verify(variant=variant, weights=weights, data=data)
    assert done.code == 2, done.err
    (line,) = [line for line in done.err.splitlines() if ": PG" in line]
    assert said in line


def test_too_little_memory_is_said_before_anything_is_loaded(verify, monkeypatch):
    monkeypatch.setattr(models, "free_memory", lambda device: 1000)
    done = verify()
    assert done.code == 2 and "PG816" in done.err and "are free" in done.err
    assert "llama_loss: not proven" in done.out and "in float32 ended early: 88,800" in done.out


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")], ids=repr
)
def test_memory_that_runs_out_leaves_what_was_found(verify, monkeypatch, error):
    def train(self, job):
        raise error

    monkeypatch.setattr(compare.Comparison, "train", train)
    done = verify()
    assert done.code == 2 and "there is not enough memory" in done.err and "--steps 0" in done.err
    assert "real float32 states       PASS" in done.out


def test_a_process_that_the_system_ends(verify, monkeypatch):
    ended = [{"begun": "training the parent"}, {"fault": "the process ended with code -9"}]
    monkeypatch.setattr(run, "answers_of", lambda *given: iter(ended))
    done = verify()
    assert done.code == 2 and "the system ended the process (training the parent)" in done.err


def test_options_that_need_each_other(verify, checkpoint, capsys):
    assert main(["verify", "llama_loss", "--checkpoint", str(checkpoint)]) == 2
    assert "need each other" in capsys.readouterr().err
    assert verify("--full").code == 2
    assert "float32 or bfloat16" in verify("--dtype", "float64").err


def test_from_python(checkpoint):
    asked = {"checkpoint": str(checkpoint), "data": str(TEXT), "length": 24, "steps": 1}
    done = patchgen.verify("llama_loss", **asked)
    assert done.is_proven and "## llama_loss in float32" in done._repr_markdown_()
    with pytest.raises(PatchgenError, match="PG811") as refused:
        patchgen.verify("bert_mlm", **asked)
    assert "not proven" in refused.value.__notes__[0]
