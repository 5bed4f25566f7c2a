"""What follows from inputs is known on shapes alone, and what depends on weights is not."""

from __future__ import annotations

from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.shape_mode import shapes_only


@pytest.fixture
def known():
    with shapes_only() as found:
        yield found


def test_nothing_has_memory(known):
    weights = torch.empty(10**6, 10**6)
    assert (weights @ weights).shape == (10**6, 10**6)


def test_conditions_on_inputs(known):
    ids = torch.tensor([[3, 4, 0], [5, 0, 0]])
    assert bool((ids != 0).any())
    assert not bool((ids != 0).all())
    assert (ids != 0).sum().item() == 3


def test_what_is_written_in_place_is_seen_through_views(known):
    ids = torch.tensor([[3, 4, 0], [5, 0, 0]])
    row = ids[1]
    ids.fill_(7)
    assert row.tolist() == [7, 7, 7]


def test_what_weights_are_written_into_is_not_known_any_more(known):
    ids = torch.tensor([[3, 4, 0], [5, 0, 0]])
    row = ids[1]
    row.copy_(torch.empty(3))
    with pytest.raises(
        PatchgenError, match="PG821 the forward asks for a number that depends on weights"
    ):
        ids.sum().item()


def test_shapes_that_follow_from_inputs(known):
    ids = torch.tensor([[3, 4, 0], [5, 0, 0]])
    states = torch.empty(2, 3, 8)
    assert (ids != 0).nonzero().shape == (3, 2)
    assert states[ids != 0].shape == (3, 8)
    assert torch.masked_select(states, (ids != 0)[..., None]).shape == (24,)


def test_shapes_that_follow_from_weights(known):
    scores = torch.empty(5)
    with pytest.raises(
        PatchgenError, match="PG821 the forward gives a tensor whose shape depends on weights"
    ):
        (scores > 0).nonzero()
    with pytest.raises(
        PatchgenError, match="PG821 the forward takes the elements where a mask is true"
    ):
        scores[scores > 0]


def test_a_condition_on_weights_is_not_given_and_reported(known):
    scores = torch.empty(5)
    assert not bool(torch.isinf(scores).any())
    assert [place.split(":")[0].endswith("test_shape_mode.py") for place in known.assumed] == [True]


def test_a_layer_that_chance_would_leave_out_is_there(known):
    assert not bool(torch.rand([]) < 0.99)
    assert len(known.assumed) == 1


@pytest.mark.parametrize(("tokens", "experts", "each"), [(10, 5, 2), (6, 4, 3), (12, 12, 1)])
def test_tokens_are_dealt_to_experts_in_turn(known, tokens, experts, each):
    chosen = torch.empty(tokens, experts).topk(each, dim=-1).indices
    counts = torch.bincount(chosen.flatten(), minlength=experts).tolist()
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == tokens * each
    assert all(len(set(row)) == each for row in known.values.of(chosen).tolist())


def test_what_is_checked_of_weights_is_right():
    """As `torch.distributions` does with its parameters."""
    with shapes_only():
        torch.distributions.Categorical(logits=torch.empty(3, 5), validate_args=True)


def test_a_batch_norm_is_laid_out_as_the_kernel_does_it():
    def strides() -> tuple[int, ...]:
        return torch.nn.BatchNorm1d(8)(torch.ones(2, 6, 8).transpose(1, 2)).stride()

    with shapes_only():
        fake = strides()
    assert fake == strides()


def test_a_row_that_an_embedding_does_not_have(known):
    with pytest.raises(IndexError, match="row 5 of an embedding of 5 rows"):
        torch.nn.functional.embedding(torch.tensor([0, 5]), torch.empty(5, 8))


def test_a_module_that_is_converted_to_what_it_is(known):
    layer = torch.nn.Linear(3, 4)
    weight = layer.weight
    (layer(torch.empty(2, 3))).sum().backward()
    assert layer.to(torch.float32).weight is weight


def test_a_fake_tensor_passes_for_an_ordinary_one():
    asked = ModuleType("asked")
    exec(
        "def of(x): return type(x), isinstance(x, type), type('Made', (), {}).__name__", vars(asked)
    )
    with shapes_only(asked):
        assert asked.of(torch.empty(3)) == (torch.Tensor, False, "Made")
        assert asked.of(torch.nn.Parameter(torch.empty(3)))[0] is torch.nn.Parameter
        assert asked.of(3)[:2] == (int, False)
        assert asked.of(int)[:2] == (type, True)
    assert "type" not in vars(asked)


def test_the_world_is_as_it_was_afterwards():
    before = torch.nn.Module._apply
    with shapes_only():
        assert torch.nn.Module._apply is not before
    assert torch.nn.Module._apply is before
    from torch._subclasses.fake_tensor import FakeTensor

    assert "__format__" not in FakeTensor.__dict__
