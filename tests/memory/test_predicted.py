"""What shapes predict is what a step takes: other families of models, other ways to train, each on tiny sizes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.memory.account import figures  # noqa: E402
from patchgen.memory.measure import measured  # noqa: E402
from patchgen.memory.predict import predicted  # noqa: E402
from patchgen.memory.setup import Setup  # noqa: E402
from patchgen.memory.target import Choice, find_target  # noqa: E402
from tests.toytree import REPOSITORY  # noqa: E402

SETUP = Setup(batch=3, length=40)
WITHIN = 0.05
FIGURES = ("weights", "buffers", "optimizer", "gradients", "inputs", "saved", "peak")


def apart(name: str, setup: Setup, **chosen) -> dict[str, tuple[int, int]]:
    """What is not within bounds, predicted and measured."""
    target = find_target(name, Choice(tiny=True, **chosen), REPOSITORY)
    guess, truth = figures(predicted(target, setup)), measured(target, setup)
    pairs = {figure: (getattr(guess, figure), getattr(truth, figure)) for figure in FIGURES}
    pairs |= {phase: (dict(guess.peaks)[phase], dict(truth.peaks)[phase]) for phase, _ in truth.peaks}
    assert pairs["saved"][1] > 0
    return {name: pair for name, pair in pairs.items() if abs(pair[0] - pair[1]) > WITHIN * pair[1]}


# A decoder, an encoder, both of them, convolutions for projections, images, windows of them, two directions, a state
# space, disentangled attention, pooling, routed experts: only the first is in the gallery.
@pytest.mark.parametrize(
    "name",
    ["llama_sdpa", "bert", "t5", "gpt2", "vit", "swin", "xlnet", "mamba", "deberta-v2", "funnel", "qwen3_moe"],
)
def test_family(name):
    assert apart(name, SETUP) == {}
