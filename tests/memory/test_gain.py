"""What a step takes, counted on shapes: against torch's own counter, and between two models."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from dataclasses import replace

from torch.utils.flop_counter import FlopCounterMode

from patchgen.syntax.errors import PatchgenError
from patchgen.training.gain import STEPS, Gain, Work, count_a_gain, count_gain, count_work
from patchgen.training.memory.figures import summarize
from patchgen.training.memory.step import (
    Setup,
    batch_of,
    build_model,
    cast_inputs,
    make_optimizer,
    predict_step,
    run_step,
)
from patchgen.training.memory.target import Choice, Target, find_target
from tests.toytree import REPOSITORY

SLIDING = {"layer_types": None, "use_sliding_window": True, "sliding_window": 8}
SETUP = Setup(batch=3, length=40, optimizer="sgd", attention="eager")


def tiny(name: str) -> Target:
    return find_target(name, Choice(tiny=True), REPOSITORY)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_as_many_flops_as_torch_counts_in_a_real_step(name):
    target = tiny(name)
    model = build_model(target, SETUP)
    optimizer = make_optimizer(model, SETUP)
    with FlopCounterMode(display=False) as counter:
        run_step(model, cast_inputs(batch_of(target, SETUP), SETUP), SETUP, optimizer)
    assert predict_step(target, SETUP).flops == counter.get_total_flops()


@pytest.mark.parametrize(
    ("variant", "parent", "changes", "less", "same"),
    [
        pytest.param("gpt2_gelu", "gpt2", {}, ["kept", "launches"], ["flops"], id="one kernel"),
        pytest.param(
            "bert_padding_free", "bert", {"padded": True}, ["kept", "flops"], [], id="padding"
        ),
        pytest.param("mpnet_checkpoint", "mpnet", {"checkpoint": "full"}, ["kept"], [], id="again"),
        pytest.param("bert", "bert", {}, [], ["kept", "flops", "launches"], id="nothing"),
    ],
)
def test_a_variant_beside_its_parent(variant, parent, changes, less, same):
    setup = replace(SETUP, attention="", precision="pure-bf16", device="cuda", **changes)
    gain = count_gain(tiny(variant), tiny(parent), setup)
    assert [name for name in less if getattr(gain, name) >= 1] == []
    assert [name for name in same if getattr(gain, name) != 1] == []
    assert gain.is_worth_it == bool(less)


def test_products_inside_an_operator_of_python_count():
    # Logits of several chunks and their gradients: as many products as the parent's.
    stock, ours = tiny("gpt2"), tiny("gpt2_loss")
    ours.config.loss_chunk_size = 7
    setup = replace(SETUP, attention="")
    assert count_work(ours, setup).flops == count_work(stock, setup).flops


@pytest.mark.parametrize(
    ("variant", "parent", "steps", "step"),
    [
        ("llama_fast", "llama", ("padded rows", "padded rows under varlen"), 1),
        ("bert_padding_free", "bert", ("padded rows", "padded rows under varlen"), 0),
    ],
)
def test_padding_is_counted_where_attention_takes_lengths(variant, parent, steps, step):
    ours, theirs = tiny(variant), tiny(parent)
    setups = [replace(SETUP, **{"attention": "", **STEPS[name]}) for name in steps]
    gains = [count_gain(ours, theirs, setup) for setup in setups]
    assert gains[step].flops < 0.9
    assert all(gain.flops >= 0.9 for gain in gains[:step])


def test_a_model_beside_itself_has_no_gain_to_tell():
    model = tiny("bert").model_class
    with pytest.raises(ValueError, match="exactly what its parent does"):
        count_a_gain(model, model, ["full rows"])


@pytest.mark.parametrize(
    ("name", "changes", "left_out"),
    [
        ("gpt2_loss", {"n_layer": 17}, 15),
        ("qwen2", {"num_hidden_layers": 20, **SLIDING, "max_window_layers": 3}, 0),
        pytest.param("llama", {"num_hidden_layers": 20}, 18, marks=pytest.mark.slow),
        pytest.param("llama", {"num_hidden_layers": 15}, 0, marks=pytest.mark.slow, id="not deep"),
        pytest.param(
            "qwen2",
            {"num_hidden_layers": 20, **SLIDING, "max_window_layers": 0},
            18,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_deep_model_is_counted_with_a_few_of_its_layers(name, changes, left_out):
    target = tiny(name)
    config = type(target.config)(**{**target.config.to_dict(), **changes})
    target = replace(target, config=config)
    setup = replace(SETUP, attention="", checkpoint="full", precision="pure-bf16", device="cuda")
    trace = predict_step(target, setup)
    assert predict_step(target, setup, layers=2).left_out == left_out
    work = Work(summarize(trace).saved, trace.flops, trace.launches)
    assert count_work(target, setup) == work


def test_an_input_without_rows_stays_as_it_is():
    # Bark's fine model is told the number of its codebook.
    target = tiny("bark")
    target = replace(target, model_class=transformers.BarkFineModel)
    target = replace(target, config=target.config.fine_acoustics_config)
    assert batch_of(target, SETUP)["codebook_idx"].dim() == 0


def test_what_saves_less_than_a_twentieth_is_not_worth_it():
    assert not Gain(0.96, 1.0, 1.2).is_worth_it
    assert Gain(1.3, 0.9, 1.2).is_worth_it


def test_what_a_forward_asserts_is_told():
    # Its quantized activations look for NaN, and no tensor here has values.
    with pytest.raises(PatchgenError, match=r"the model's forward fails: AssertionError"):
        count_work(tiny("ibert"), SETUP)
