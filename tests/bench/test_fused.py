"""A variant whose layers are fused is trained from the weights of the others, and measured by the same gradients."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn

from patchgen.training.bench.entry import SDPA, variant
from patchgen.training.bench.fused import wholes_of
from patchgen.training.bench.matrix import B3
from patchgen.training.bench.optimizers import optimizer_of
from patchgen.training.bench.reference import reference_of
from patchgen.training.bench.round import TINY_TURNS, first_turn
from patchgen.training.bench.setup import Scale, Stage, adopt
from patchgen.training.bench.step import Trainer
from patchgen.training.bench.tiny import tiny_case

FUSED = variant("bert_fused")


@pytest.fixture(scope="module")
def stage():
    return Stage(tiny_case(B3), Scale("cpu", tiny=True))


def stepped(stage, contestant):
    """The loss before and after a step."""
    entrant = stage.enter(contestant)
    trainer = Trainer(entrant, optimizer_of("fused", stage.begin(entrant)), "cpu")
    return [float(trainer.step().detach()) for _ in range(3)]


def test_its_gradients_are_right(stage):
    result = first_turn(stage, stage.enter(FUSED), reference_of(stage), TINY_TURNS[0])
    assert result.status == "ok", result.note


def test_an_error_in_a_part_is_seen(stage, monkeypatch):
    from generated.bert import modeling_bert_fused

    right = modeling_bert_fused.FusedLinear.forward
    monkeypatch.setattr(
        modeling_bert_fused.FusedLinear, "forward", lambda self, x: right(self, x).flip(-1)
    )
    assert (
        first_turn(stage, stage.enter(FUSED), reference_of(stage), TINY_TURNS[0]).status == "wrong"
    )


def test_it_is_trained_and_set_back(stage):
    ours, again, theirs = (stepped(stage, one) for one in (FUSED, FUSED, SDPA))
    assert ours == again and ours[2] < ours[0]
    assert ours == pytest.approx(theirs, rel=1e-4), "AdamW of a whole is that of its parts"


def test_parts_are_not_trained_beside_the_whole(stage):
    entrant = stage.enter(FUSED)
    trained = stage.begin(entrant)
    shared = {id(part) for whole in entrant.wholes for part in whole.parts}
    assert len(entrant.wholes) == 4 and len(shared) == 12, "weight and bias of two layers"
    assert not shared & {id(parameter) for parameter in trained}
    assert sum(map(torch.numel, trained)) == sum(map(torch.numel, stage.distinct.values()))


def test_nothing_is_left_behind(stage):
    entrant = stage.enter(FUSED)
    first_turn(stage, entrant, reference_of(stage), TINY_TURNS[0])
    assert all(whole.parameter.grad is None for whole in entrant.wholes) and not norms_left(stage)


def norms_left(stage):
    return [name for name, parameter in stage.distinct.items() if parameter.grad is not None]


def test_a_layer_with_other_parts_is_other_weights(stage):
    model = stage.enter(SDPA).model
    odd = nn.Linear(8, 8)
    odd.parts = {"nowhere": 8}
    model.add_module("odd", odd)
    assert wholes_of(model, stage.parameters) == {}
    with pytest.raises(ValueError, match="other weights"):
        adopt(model, stage.parameters)
