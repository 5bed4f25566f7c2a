"""GELU by one operation: the same function, which keeps less."""

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import GPT2Config
from transformers.activations import ACT2FN

from patchgen.parts.gelu import TANH_GELUS


def activation_of(name):
    config = GPT2Config(n_embd=8, n_head=2, activation_function=name)
    return importlib.import_module("generated.gpt2.modeling_gpt2_gelu").GPT2MLP(16, config).act


class TestGelu:
    @pytest.mark.parametrize("name", TANH_GELUS)
    def test_is_the_same_function(self, name):
        x = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
        ours, theirs = activation_of(name)(x), ACT2FN[name](x)
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)
        (one,), (two,) = (torch.autograd.grad(each.sum(), x) for each in (ours, theirs))
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("name", ["gelu", "gelu_fast", "quick_gelu", "relu"])
    def test_others_stay(self, name):
        assert type(activation_of(name)) is type(ACT2FN[name])

    def test_keeps_its_input_only(self):
        assert [kept(activation_of("gelu_new")), kept(ACT2FN["gelu_new"])] == [1, 4]


def kept(activation):
    """Tensors that are kept for the backward pass, the input included."""
    places = set()
    hold = []

    def pack(tensor):
        if tensor.dim():
            hold.append(tensor)
            places.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        activation(torch.randn(10, requires_grad=True) * 1)
    return len(places)
