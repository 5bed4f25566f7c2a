"""Predictions equal measurements, for many families of models and ways to train, on tiny sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.training.memory.figures import summarize
from patchgen.training.memory.measure import measure_step
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Choice, find_target
from tests.toytree import REPOSITORY

SETUP = Setup(batch=3, length=40)
WITHIN = 0.05
FIGURES = ("weights", "buffers", "optimizer", "gradients", "inputs", "saved", "peak")


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def apart(name: str, setup: Setup, **chosen) -> dict[str, tuple[int, int]]:
    """What is not within bounds, predicted and measured."""
    target = find_target(name, Choice(tiny=True, **chosen), REPOSITORY)
    guess, truth = summarize(predict_step(target, setup)), measure_step(target, setup)
    pairs = {figure: (getattr(guess, figure), getattr(truth, figure)) for figure in FIGURES}
    pairs |= {phase: (guess.peaks[phase], truth.peaks[phase]) for phase in truth.peaks}
    assert pairs["saved"][1] > 0
    return {name: pair for name, pair in pairs.items() if abs(pair[0] - pair[1]) > WITHIN * pair[1]}


# A decoder, an encoder, both, convolutions for projections, images, windows, two directions, a
# state space, disentangled attention, pooling, routed experts, dropped layers, time series: only
# the first is in the gallery.
@pytest.mark.parametrize(
    "name",
    [
        "llama_loss",
        "bert",
        slow("t5"),
        slow("gpt2"),
        slow("vit"),
        slow("swin"),
        slow("xlnet"),
        slow("mamba"),
        slow("deberta-v2"),
        slow("funnel"),
        "qwen3_moe",
        slow("opt"),
        slow("patchtst"),
    ],
)
def test_family(name):
    assert apart(name, SETUP) == {}


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param({"precision": "pure-bf16"}, id="pure-bf16"),
        pytest.param(
            {"precision": "amp-bf16"}, id="autocast: weights in two types", marks=pytest.mark.slow
        ),
        pytest.param({"optimizer": "sgd"}, id="no states", marks=pytest.mark.slow),
        pytest.param({"optimizer": "momentum"}, id="one state", marks=pytest.mark.slow),
        pytest.param({"optimizer": "adafactor"}, id="states of rows and columns"),
        pytest.param(
            {"optimizer": "adamw-foreach"},
            id="an optimizer that needs room for all at once",
            marks=pytest.mark.slow,
        ),
        pytest.param({"accumulate": 3}, id="gradients that stay", marks=pytest.mark.slow),
        pytest.param({"attention": "eager"}, id="eager", marks=pytest.mark.slow),
        pytest.param({"checkpoint": "full"}, id="checkpoint"),
        pytest.param({"checkpoint": "selective"}, id="what a policy keeps"),
        pytest.param(
            {"checkpoint": "full", "every": 2, "precision": "amp-bf16"},
            id="each second layer",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_setup(setup):
    assert apart("llama", replace(SETUP, **setup)) == {}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param(
            "gpt2", (("tie_word_embeddings", False),), id="untied", marks=pytest.mark.slow
        ),
        pytest.param(
            "mixtral",
            (("num_local_experts", 9),),
            id="more experts than a token goes to",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "switch_transformers",
            (),
            id="experts with room for so many tokens",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "llama_moe", (), id="a mixture made from a dense model", marks=pytest.mark.slow
        ),
        pytest.param("bert_padding_free", (), id="rows packed together"),
    ],
)
def test_kind(name, changes):
    assert apart(name, SETUP, changes=changes) == {}


@pytest.mark.slow  # inductor compiles for each dtype
def test_what_the_loss_compiles_is_one_kernel():
    """So many logits are; a prediction and a measurement before do not keep it from being so."""
    target = find_target("llama_loss", Choice(tiny=True, changes=(("vocab_size", 40_000),)))
    for precision in ("fp32", "amp-bf16"):
        setup = Setup(batch=1, length=512, precision=precision)
        guess = summarize(predict_step(target, setup))
        assert guess.peaks == pytest.approx(measure_step(target, setup).peaks, rel=0.01)


def test_tied_weights_are_there_once():
    tied, untied = (
        summarize(
            predict_step(
                find_target("gpt2", Choice(tiny=True, changes=(("tie_word_embeddings", tied),))),
                SETUP,
            )
        )
        for tied in (True, False)
    )
    vocabulary, width, size = 97, 32, 4
    assert untied.weights - tied.weights == vocabulary * width * size
    assert untied.gradients - tied.gradients == vocabulary * width * size
    assert (
        untied.optimizer - tied.optimizer == 2 * vocabulary * width * size + size
    )  # and its count of steps


def test_twice_the_rows_keep_twice_as_much():
    target = find_target("bert", Choice(tiny=True))
    one, two = (summarize(predict_step(target, replace(SETUP, batch=batch))) for batch in (8, 16))
    assert two.saved / one.saved == pytest.approx(2, abs=0.01)
    assert (two.weights, two.optimizer) == (one.weights, one.optimizer)
