"""A whole run: the shipped text, a new tokenizer, a trained variant, and a complete folder."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensor

from patchgen.cli.commands import patchgen as command_line
from tests.train.runs import losses, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "path"
    switches = [
        "--tiny",
        "--steps",
        "12",
        "--learning-rate",
        "5e-3",
        "--save-every",
        "6",
        "--output",
        str(path),
    ]
    done = CliRunner().invoke(
        command_line, ["train", "llama_loss", *switches], standalone_mode=False
    )
    if done.exception is not None:
        raise done.exception
    assert f"run              {path}" in done.output
    return path


def test_the_model_learns(folder):
    first, *_, last = losses(folder)
    assert last < first - 0.4
    data = json.loads((folder / "result.json").read_text())
    assert data["loss"] == last and data["eval_loss"] < first - 0.4
    assert (
        data["tokens"] > 0
        and data["tokens_a_second"] > 0
        and 0 < data["mfu"] < 1
        and data["peak_bytes"] > 2**20
    )


def test_the_folder_says_what_was_asked_and_what_ran_it(folder):
    asked = json.loads((folder / "recipe.json").read_text())
    assert (asked["model"], asked["steps"], asked["learning_rate"]) == ("llama_loss", 12, 5e-3)
    found = json.loads((folder / "run.json").read_text())
    assert found["model"] == "generated.llama.modeling_llama_loss.LlamaForCausalLM"
    assert found["attempts"][0]["packages"]["transformers"] == transformers.__version__
    assert found["configuration"]["num_hidden_layers"] == 3
    assert found["data"]["passages"] == [434, 48]


def test_the_curve_is_a_picture(folder):
    text = (folder / "curve.svg").read_text()
    assert ET.fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in text and "eval loss" in text


def test_the_model_and_its_tokenizer_load_from_the_folder(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    sentence = "It is a truth universally acknowledged"
    ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == sentence
    assert model(ids).logits.shape[-1] == len(tokenizer)


@pytest.mark.slow
def test_the_same_run_gives_the_same_losses(tmp_path):
    first, again, other = (
        run(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert losses(first.folder) == losses(again.folder) != losses(other.folder)


def test_a_bar_says_what_was_measured_last(tmp_path):
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from patchgen.cli.train import _Bar

    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Progress(
        TextColumn("{task.completed}/{task.total} {task.fields[figures]}"), console=console
    ) as bar:
        watch = _Bar(bar)
        run(tmp_path / "run", watch=watch, steps=5, eval_every=5)
    (task,) = bar.tasks
    assert (task.completed, task.total) == (5, 5)
    loss, speed = task.fields["figures"].split("\n")
    assert loss.startswith("loss 6.") and "eval loss 6." in loss
    assert "tokens/s  MFU" in speed and speed.endswith("GiB")


def test_nothing_large_runs_before_the_first_step(tmp_path):
    """Operations are counted on shapes; whether a loss is a mean is asked with a few tokens."""
    seen: list[tuple[bool, int]] = []

    def look(module, args):
        if isinstance(module, torch.nn.Embedding) and not isinstance(args[0], FakeTensor):
            seen.append((module.training, args[0].numel()))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        run(tmp_path / "run", length=128, steps=1)
    finally:
        hook.remove()
    first = next(number for number, (training, _) in enumerate(seen) if training)
    assert max(tokens for _, tokens in seen[:first]) <= 2 * 16 < seen[first][1]
