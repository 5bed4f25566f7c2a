"""An MLP in tiles of the sequence, against the MLP itself."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.models.llama.modeling_llama import LlamaMLP

from patchgen.parts.tiles import TiledMLP
from patchgen.runtime.tiny import tiny_config


class Tiled(TiledMLP, LlamaMLP):
    pass


def pair(size, **changes):
    config = tiny_config("llama", **changes)
    config.mlp_tile_size = size
    torch.manual_seed(0)
    parent, variant = LlamaMLP(config), Tiled(config)
    variant.load_state_dict(parent.state_dict())
    return parent, variant


@pytest.mark.parametrize("size", [5, 11, 13, None])
def test_outputs_and_gradients_of_states_are_the_parents_bits(size):
    results = []
    for model in pair(size):
        states = torch.randn(2, 13, 32, generator=torch.Generator().manual_seed(1)).requires_grad_()
        output = model(states)
        output.square().sum().backward()
        weights = [parameter.grad for parameter in model.parameters()]
        results.append((output.detach(), states.grad, weights))
    (output, of_states, weights), (tiled, of_tiled, of_weights) = results
    assert torch.equal(output, tiled) and torch.equal(of_states, of_tiled)
    torch.testing.assert_close(of_weights, weights)  # summed over tiles


def test_a_tile_is_the_largest_tensor_that_is_kept():
    inner = 512
    _, variant = pair(4, intermediate_size=inner)
    kept = []
    states = torch.randn(1, 64, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor.numel()) or tensor, lambda tensor: tensor
    ):
        output = variant(states)
    assert max(kept, default=0) <= 64 * 32
    output.sum().backward()


def test_nothing_is_computed_again_without_gradients():
    _, variant = pair(4)
    calls = []
    variant.down_proj.register_forward_hook(lambda *given: calls.append(given))
    with torch.no_grad():
        variant(torch.randn(1, 13, 32))
    assert len(calls) == 4
