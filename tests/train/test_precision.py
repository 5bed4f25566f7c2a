"""A precision means the same in every command: `memory` predicts what `train` holds."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from transformers import Trainer, TrainingArguments

from patchgen.syntax.errors import PatchgenError
from patchgen.training import precision
from patchgen.training.loop.arguments import make_arguments
from patchgen.training.loop.models import build, find_source
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.switches import check_switches
from patchgen.training.memory.figures import summarize
from patchgen.training.memory.measure import _on_cpu
from patchgen.training.memory.predict import predict_step
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.target import Choice, find_target
from tests.train.runs import losses, run

SIZES = {
    "vocab_size": 4000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
ROWS, LENGTH = 2, 128
SLOW = partial(pytest.param, marks=pytest.mark.slow)


class Words:
    """What `build` asks of a tokenizer."""

    pad_token_id = bos_token_id = eos_token_id = None

    def __len__(self) -> int:
        return SIZES["vocab_size"]


def test_every_name_is_distinguished():
    held = {
        (precision.weights_in(name), precision.autocast_to(name))
        for name in ("fp32", "amp-bf16", "amp-fp16")
    }
    assert held == {("float32", ""), ("float32", "bfloat16"), ("float32", "float16")}
    assert precision.weights_in("pure-bf16") == "bfloat16"
    assert {
        name: precision.products_in(name) for name in ("fp32", "tf32", "fsdp-mixed", "amp-fp16")
    } == {
        "fp32": "float32",
        "tf32": "float32",
        "fsdp-mixed": "bfloat16",
        "amp-fp16": "float16",
    }


@pytest.mark.parametrize("former", ["bf16", "mixed", "autocast"])
def test_a_former_name_is_refused(former):
    with pytest.raises(PatchgenError, match="(?s)PG813.*there are fp32"):
        check_switches(Recipe(model="llama", precision=former))


@pytest.mark.slow
def test_weights_in_bfloat16_are_trained(tmp_path):
    ended = run(tmp_path / "run", precision="pure-bf16", steps=3)
    assert losses(ended.folder)[-1] < losses(ended.folder)[0]


@pytest.mark.parametrize("name", [SLOW("fp32"), "amp-bf16", SLOW("pure-bf16")])
def test_memory_predicts_what_train_holds(tmp_path, name):
    """Return the peak of each phase of Trainer's step, as the profiler sees it."""
    target = find_target("llama", Choice(changes=tuple(SIZES.items())))
    summary = summarize(predict_step(target, Setup(batch=ROWS, length=LENGTH, precision=name)))
    recipe = Recipe(
        model="llama",
        precision=name,
        config=tuple(f"{key}={value}" for key, value in SIZES.items()),
        steps=2,
    )
    trainer, batch = trainer_of(recipe, tmp_path)
    assert sum(weight.nbytes for weight in trainer.model.parameters()) == summary.weights
    trainer.train()
    checkpoint_step(trainer, batch, lambda phase: None)
    seen = _on_cpu(lambda begin: checkpoint_step(trainer, batch, begin))
    held = summary.weights + summary.buffers + summary.optimizer + summary.inputs
    assert seen == {phase: pytest.approx(most - held, abs=64) for phase, most in summary.peaks}


def trainer_of(recipe, place):
    """Trainer as `patchgen train` has it, on rows of drawn tokens; and one batch of them."""
    arguments = make_arguments(
        recipe, place, "cpu", ROWS, save_strategy="no", eval_strategy="no", max_grad_norm=0
    )
    assert isinstance(arguments, TrainingArguments)
    tokens = torch.randint(
        SIZES["vocab_size"], (ROWS, LENGTH), generator=torch.Generator().manual_seed(0)
    )
    rows = [
        {"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in tokens
    ]
    trainer = Trainer(
        model=build(find_source(recipe), recipe, Words(), ()),
        args=arguments,
        train_dataset=rows * 2,
    )
    return trainer, {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def checkpoint_step(trainer, batch, begin):
    begin("forward")
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(trainer.model_wrapped, batch)
    begin("backward")
    trainer.accelerator.backward(loss)
    del loss
    begin("optimizer")
    trainer.optimizer.step()
    trainer.model_wrapped.zero_grad()
