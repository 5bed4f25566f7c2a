"""What `patchgen train` is given, and what it refuses."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

from patchgen.cli.commands import patchgen as command_line
from patchgen.runtime.attention import choose_kernel
from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.models import build, find_source
from patchgen.training.loop.options import Options, make_arguments, parse
from patchgen.training.loop.texts import prepare_data
from tests.train.runs import SHORT, history, losses, run, words


def test_any_argument_of_trainer_is_one():
    options, given = parse(
        ["llama", "--report_to", "tensorboard", "--lr-scheduler-type=cosine", "--bf16"]
    )
    assert options == Options(model="llama")
    assert given == {"report_to": "tensorboard", "lr_scheduler_type": "cosine", "bf16": True}
    arguments = make_arguments(options, given)
    assert arguments.report_to == ["tensorboard"] and arguments.learning_rate == 5e-4
    assert make_arguments(options, {}, from_weights=True).learning_rate == 2e-5
    assert make_arguments(Options(lora_rank=8), {}, from_weights=True).learning_rate == 2e-4
    assert make_arguments(options, {"learning_rate": 1.0}).learning_rate == 1.0


def test_the_arguments_of_a_run_are_read_again(tmp_path):
    argv = [
        "train",
        "llama_loss",
        *words(**{**SHORT, "max_steps": 2, "output_dir": tmp_path / "a"}),
    ]
    done = CliRunner().invoke(command_line, argv, standalone_mode=False)
    assert done.exception is None and f"run  {tmp_path / 'a'}" in done.output, done.output
    asked = json.loads((tmp_path / "a" / "arguments.json").read_text())
    assert asked["model"] == "llama_loss" and asked["max_steps"] == 2 and "task" not in asked
    again = [str(tmp_path / "a" / "arguments.json"), "--output_dir", str(tmp_path / "b")]
    done = CliRunner().invoke(command_line, ["train", *again], standalone_mode=False)
    assert losses(tmp_path / "b") == losses(tmp_path / "a")


def test_every_argument_is_listed():
    done = CliRunner().invoke(command_line, ["train", "all", "--arguments"], standalone_mode=False)
    assert "--lora_rank" in done.output and "--neftune_noise_alpha" in done.output


def test_the_attention_that_is_asked_for_is_taken(tmp_path):
    packed = {**SHORT, "packing": "isolated", "max_steps": 2}
    taken = set()
    for name in ("varlen", "sdpa"):
        run(tmp_path / name, "llama_packed", attention=name, **packed)
        options, _ = parse(["llama_packed", *words(**{**packed, "attention": name})])
        data = prepare_data(options, "", evaluated=False)
        taken.add(build(find_source(options), options, data, seed=0).config._attn_implementation)
    assert taken == {"varlen", "sdpa"}
    assert losses(tmp_path / "varlen") == pytest.approx(losses(tmp_path / "sdpa"), rel=1e-5)


@pytest.mark.parametrize(
    ("generation", "installed", "name"),
    [
        (9, ["flash_attention_2", "flash_attention_3"], "flash_attention_3"),
        (9, ["flash_attention_2"], "flash_attention_2"),
        (8, ["flash_attention_2", "flash_attention_3"], "flash_attention_2"),
        (10, ["flash_attention_3", "flash_attention_4"], "flash_attention_4"),
        (10, ["flash_attention_3"], None),  # is for Hopper alone
        (7, ["flash_attention_2"], None),
        (9, [], None),
    ],
)
def test_the_fastest_attention_is_for_the_card(generation, installed, name):
    assert choose_kernel(generation, installed) == name


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["--tinny"], "PG813", "did you mean tiny"),
        (["--steps", "3"], "PG813", "is no argument"),
        (["--length", "many"], "PG813", "invalid int value"),
        (["--length", "0"], "PG813", "at least 1"),
        (["--task", "chess"], "PG813", "invalid choice"),
        (["--task", "classification", "--packing", "isolated"], "PG813", "a label of its own"),
        (["--lora_kwargs", "{}  "], "PG813", "does nothing without --lora_rank"),
        (["--search", "fame"], "PG813", "loss or throughput"),
        (["--save_total_limit", "1"], "PG813", "before the new one is sealed"),
        (["--lr_scheduler_type", "downhill"], "PG813", "downhill"),
        (["--activation_checkpointing_kwargs", '{"policy": "some"}'], "PG813", "full or selective"),
        (["--dataloader_prefetch_factor", "2"], "PG813", "dataloader_num_workers"),
        (["--tokenizer", "nothing/at-all"], "PG813", "no tokenizer"),
        (["--fp16"], "PG814", "CUDA alone"),
        (["--optim", "adamw_bnb_8bit"], "PG814", "8 bits"),
        (["--use_liger_kernel"], "PG813", "the variant has changed"),
        (["--attention", "flash"], "PG813", "is not supported"),
        (["--config", "hiden_size=8"], "PG813", "did you mean hidden_size"),
        (["--config", "hidden_size"], "PG813", "key=value"),
        (["--config", "hidden_size=65536", "num_hidden_layers=900"], "PG816", "are free"),
        (["--data", "nowhere.txt"], "PG815", "cannot be read"),
    ],
    ids=str,
)
def test_what_is_refused(tmp_path, monkeypatch, argv, code, message):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    given = words(**{**SHORT, "output_dir": tmp_path / "run"})
    done = CliRunner().invoke(
        command_line, ["train", "llama_loss", *given, *argv], standalone_mode=False
    )
    assert isinstance(done.exception, PatchgenError), done.exception
    assert code in str(done.exception) and message in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "arguments", "code", "message"),
    [
        ("llama_los", {}, "PG811", "did you mean llama_loss"),
        ("bert_moe", {"task": "classification"}, "PG812", "it has one for masked-lm"),
        ("vit", {}, "PG812", "has no head for causal-lm"),
        ("gpt2", {"config": ["n_positions=20"]}, "PG813", "the model has 20 positions"),
        ("bert_mlm", {"task": "masked-lm", "packing": "isolated"}, "PG812", "see each other"),
    ],
)
def test_models_that_are_not_to_be_had(tmp_path, model, arguments, code, message):
    with pytest.raises(PatchgenError, match=code) as refused:
        run(tmp_path / "run", model, **arguments)
    assert message in str(refused.value)


def test_checkpoints_of_other_models(tmp_path, caplog):
    run(tmp_path / "run", max_steps=1)
    begin = {"tiny": False, "weights": tmp_path / "run", "max_steps": 1}
    with pytest.raises(PatchgenError, match="PG811.*is a llama, and bert_mlm takes bert"):
        run(tmp_path / "other", "bert_mlm", task="masked-lm", **begin)
    with pytest.raises(PatchgenError, match="PG813.*the tokenizer has 1025"):
        tokenizer = _larger(tmp_path)
        run(tmp_path / "large", "llama", tokenizer=tokenizer, **begin)
    shutil.copytree(tmp_path / "run", tmp_path / "cut")
    path = tmp_path / "cut" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(PatchgenError, match="PG811.*cannot be loaded"):
        run(tmp_path / "third", "llama", **{**begin, "weights": tmp_path / "cut"})


def _larger(place):
    from patchgen.training.loop.texts import shipped_tokenizer

    tokenizer = shipped_tokenizer()
    tokenizer.add_tokens(["one", "more"])
    tokenizer.save_pretrained(place / "large")
    return place / "large"


def test_report_to_gets_the_figures(tmp_path):
    pytest.importorskip("tensorboard")
    run(tmp_path / "run", report_to="tensorboard", max_steps=5)
    assert any("mfu" in entry for entry in history(tmp_path / "run"))
