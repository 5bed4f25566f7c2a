"""A variant with fused layers is trained from the shared weights, with comparable gradients."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn

from patchgen.training.bench.entry import SDPA, variant
from patchgen.training.bench.fused import find_fused_weights
from patchgen.training.bench.matrix import B3
from patchgen.training.bench.reference import compute_reference
from patchgen.training.bench.round import TINY_ROUNDS, first_round
from patchgen.training.bench.setup import CaseSetup, Scale, share_parameters
from patchgen.training.bench.step import Trainer
from patchgen.training.bench.tiny import tiny_case
from patchgen.training.optimizers import build_optimizer

FUSED = variant("bert_fused")


@pytest.fixture(scope="module")
def setup():
    return CaseSetup(tiny_case(B3), Scale("cpu", tiny=True))


def stepped(setup, entry):
    """The loss before and after a step."""
    prepared = setup.prepare(entry)
    trainer = Trainer(prepared, build_optimizer("adamw", setup.restore_weights(prepared)), "cpu")
    return [float(trainer.step().detach()) for _ in range(3)]


def test_its_gradients_are_right(setup):
    result = first_round(setup, setup.prepare(FUSED), compute_reference(setup), TINY_ROUNDS[0])
    assert result.status == "ok", result.note


def test_an_error_in_a_part_is_seen(setup, monkeypatch):
    from generated.bert import modeling_bert_fused

    right = modeling_bert_fused.FusedLinear.forward
    monkeypatch.setattr(
        modeling_bert_fused.FusedLinear, "forward", lambda self, x: right(self, x).flip(-1)
    )
    assert (
        first_round(setup, setup.prepare(FUSED), compute_reference(setup), TINY_ROUNDS[0]).status
        == "wrong"
    )


def test_it_is_trained_and_set_back(setup):
    ours, again, theirs = (stepped(setup, one) for one in (FUSED, FUSED, SDPA))
    assert ours == again and ours[2] < ours[0]
    assert ours == pytest.approx(theirs, rel=1e-4), "AdamW of a whole is that of its parts"


def test_parts_are_not_trained_beside_the_whole(setup):
    prepared = setup.prepare(FUSED)
    trained = setup.restore_weights(prepared)
    shared = {id(part) for whole in prepared.fused_weights for part in whole.parts}
    assert len(prepared.fused_weights) == 4 and len(shared) == 12, "weight and bias of two layers"
    assert not shared & {id(parameter) for parameter in trained}
    assert sum(map(torch.numel, trained)) == sum(map(torch.numel, setup.distinct.values()))


def test_nothing_is_left_behind(setup):
    prepared = setup.prepare(FUSED)
    first_round(setup, prepared, compute_reference(setup), TINY_ROUNDS[0])
    assert all(whole.parameter.grad is None for whole in prepared.fused_weights) and not norms_left(
        setup
    )


def norms_left(setup):
    return [name for name, parameter in setup.distinct.items() if parameter.grad is not None]


def test_a_layer_with_other_parts_is_other_weights(setup):
    model = setup.prepare(SDPA).model
    odd = nn.Linear(8, 8)
    odd.parts = {"nowhere": 8}
    model.add_module("odd", odd)
    assert find_fused_weights(model, setup.parameters) == {}
    with pytest.raises(ValueError, match="other weights"):
        share_parameters(model, setup.parameters)
