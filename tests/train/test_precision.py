"""A precision means the same in every command: `memory` predicts what `train` holds."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer

from patchgen.training import precision
from patchgen.training.loop.models import build, find_source
from patchgen.training.loop.options import Options, make_arguments
from patchgen.training.loop.texts import prepare_data
from patchgen.training.memory.figures import summarize
from patchgen.training.memory.measure import peaks_on_cpu
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Choice, find_target

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


def test_every_name_is_distinguished():
    held = {
        (precision.weights_in(name), precision.autocast_to(name))
        for name in ("fp32", "amp-bf16", "amp-fp16")
    }
    assert held == {("float32", ""), ("float32", "bfloat16"), ("float32", "float16")}
    assert precision.weights_in("pure-bf16") == "bfloat16"
    assert {name: precision.products_in(name) for name in ("fp32", "tf32", "amp-fp16")} == {
        "fp32": "float32",
        "tf32": "float32",
        "amp-fp16": "float16",
    }


def test_angles_of_positions_stay_in_float32():
    """In bfloat16, the frequencies of rotations would be wrong by 0.2 %: at place 500, by a radian."""
    options = Options(model="llama", tiny=True, dtype="bfloat16", length=32)
    model = build(find_source(options), options, prepare_data(options, "", evaluated=False), seed=0)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("name", [SLOW("fp32"), "amp-bf16", SLOW("pure-bf16")])
def test_memory_predicts_what_train_holds(tmp_path, name):
    """Return the peak of each phase of Trainer's step, as the profiler sees it."""
    target = find_target("llama", Choice(changes=tuple(SIZES.items())))
    summary = summarize(predict_step(target, Setup(batch=ROWS, length=LENGTH, precision=name)))
    trainer, batch = trainer_of(name, tmp_path)
    assert sum(weight.nbytes for weight in trainer.model.parameters()) == summary.weights
    trainer.train()
    checkpoint_step(trainer, batch, lambda phase: None)
    seen = peaks_on_cpu(lambda begin: checkpoint_step(trainer, batch, begin))
    held = summary.weights + summary.buffers + summary.optimizer + summary.inputs
    assert seen == {
        phase: pytest.approx(most - held, abs=64) for phase, most in summary.peaks.items()
    }


def trainer_of(name, place):
    """Trainer as `patchgen train` has it, on rows of drawn tokens; and one batch of them."""
    given = {"max_steps": 2, "save_strategy": "no", "max_grad_norm": 0, "output_dir": str(place)}
    given |= {"per_device_train_batch_size": ROWS, "bf16": name == "amp-bf16", "use_cpu": True}
    arguments = make_arguments(Options(model="llama"), given)
    tokens = torch.randint(
        SIZES["vocab_size"], (ROWS, LENGTH), generator=torch.Generator().manual_seed(0)
    )
    rows = [
        {"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in tokens
    ]
    config = LlamaConfig(**SIZES, use_cache=False)
    dtype = getattr(torch, precision.weights_in(name))
    model = LlamaForCausalLM._from_config(config, dtype=dtype)
    trainer = Trainer(
        model=model,
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
