"""Experts that keep one product: the loop over experts is the oracle, for values, gradients and what is kept."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn

from patchgen.parts.experts import LeanExperts
from patchgen.training.bench.saved_activations import saved_bytes

EXPERTS, T, K, D, F = 5, 40, 3, 16, 24


class Experts(LeanExperts, nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts, self.act_fn = EXPERTS, nn.SiLU()
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * F, D) / 4)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, D, F) / 4)

    def looped(self, x_TD, choice_TK, gates_TK):
        out_TD = torch.zeros_like(x_TD)
        for expert in range(EXPERTS):
            token, place = torch.where(choice_TK == expert)
            gate, up = (x_TD[token] @ self.gate_up_proj[expert].t()).chunk(2, -1)
            out = self.act_fn(gate) * up @ self.down_proj[expert].t() * gates_TK[token, place, None]
            out_TD = out_TD.index_add(0, token, out)
        return out_TD


def drawn(dtype=torch.float64):
    torch.manual_seed(0)
    experts = Experts().to(dtype)
    choice_TK = torch.stack(
        [torch.randperm(EXPERTS - 1)[:K] for _ in range(T)]
    )  # the last one is never chosen
    return experts, torch.randn(T, D).to(dtype), choice_TK, torch.rand(T, K).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_and_every_gradient_are_those_of_the_loop(dtype):
    experts, x_TD, choice_TK, gates_TK = drawn(dtype)
    inputs = (
        x_TD.requires_grad_(),
        gates_TK.requires_grad_(),
        experts.gate_up_proj,
        experts.down_proj,
    )
    weights = torch.linspace(-1, 1, T * D, dtype=dtype).view(T, D)
    ours, theirs = (run(x_TD, choice_TK, gates_TK) for run in (experts, experts.looped))
    assert torch.allclose(ours, theirs, rtol=0, atol=64 * torch.finfo(dtype).eps)
    pairs = zip(
        *(torch.autograd.grad((out * weights).sum(), inputs) for out in (ours, theirs)), strict=True
    )
    for one, other in pairs:
        assert (one - other).abs().max() <= 64 * torch.finfo(dtype).eps * other.abs().max()


def test_what_is_kept_is_one_product_and_what_was_given():
    experts, x_TD, choice_TK, gates_TK = drawn(torch.float32)
    x_TD.requires_grad_()
    kept = saved_bytes(lambda: experts(x_TD, choice_TK, gates_TK), experts)
    pairs = T * K
    expected = 4 * (pairs * 2 * F + T * D + T * K) + 8 * 2 * pairs + 4 * EXPERTS
    assert kept == expected, "the product up, tokens, weights of the router, and who goes where"


def test_frozen_experts_pass_gradients_on():
    experts, x_TD, choice_TK, gates_TK = drawn()
    experts.requires_grad_(False)
    experts(x_TD.requires_grad_(), choice_TK, gates_TK).sum().backward()
    (expected,) = torch.autograd.grad(experts.looped(x_TD, choice_TK, gates_TK).sum(), x_TD)
    assert experts.down_proj.grad is None and torch.allclose(x_TD.grad, expected)


def test_autocast_computes_in_its_dtype_and_returns_the_weights_gradients_in_theirs():
    experts, x_TD, choice_TK, gates_TK = drawn(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = experts(x_TD, choice_TK, gates_TK)
    out.sum().backward()
    assert out.dtype == experts.gate_up_proj.grad.dtype == torch.float32
    theirs = experts.looped(x_TD, choice_TK, gates_TK)
    assert 0 < (out - theirs).abs().max() <= 0.05 * theirs.abs().max(), (
        "rounded, and not otherwise other"
    )


def test_a_token_of_another_device_counts_nothing():
    """transformers gives experts that are elsewhere a number of none, and a weight of zero."""
    experts, x_TD, choice_TK, gates_TK = drawn()
    expected = experts.looped(x_TD, choice_TK, gates_TK * (choice_TK != 1))
    elsewhere = choice_TK.masked_fill(choice_TK == 1, EXPERTS)
    assert torch.allclose(experts(x_TD, elsewhere, gates_TK * (choice_TK != 1)), expected)


def test_second_derivatives_are_refused():
    experts, x_TD, choice_TK, gates_TK = drawn()
    out = experts(x_TD.requires_grad_(), choice_TK, gates_TK).square().sum()
    (gradient,) = torch.autograd.grad(out, x_TD, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_compiled_the_same_comes_out():
    experts, x_TD, choice_TK, gates_TK = drawn(torch.float32)
    inputs = (x_TD.requires_grad_(), experts.gate_up_proj, experts.down_proj)
    ours = torch.compile(experts, backend="aot_eager", fullgraph=True)(x_TD, choice_TK, gates_TK)
    theirs = experts(x_TD, choice_TK, gates_TK)
    assert torch.allclose(ours, theirs, atol=1e-5)
    pairs = zip(
        *(torch.autograd.grad(out.square().sum(), inputs) for out in (ours, theirs)), strict=True
    )
    assert all((one - other).abs().max() <= 1e-4 * other.abs().max() for one, other in pairs)


def test_the_way_without_grouped_products_is_the_same(monkeypatch):
    experts, x_TD, choice_TK, gates_TK = drawn(torch.float32)
    grouped = experts(x_TD, choice_TK, gates_TK)
    first = torch.autograd.grad(grouped.square().sum(), experts.gate_up_proj)
    for module in ("patchgen.parts.grouped", "patchgen.parts.experts"):
        monkeypatch.setattr(f"{module}.GROUPED_PRODUCT", None)
    looped = experts(x_TD, choice_TK, gates_TK)
    second = torch.autograd.grad(looped.square().sum(), experts.gate_up_proj)
    assert torch.allclose(grouped, looped, atol=1e-5) and torch.allclose(*first, *second, atol=1e-4)
