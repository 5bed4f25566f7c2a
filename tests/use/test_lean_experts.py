"""The experts implementation "lean" computes what "eager" does, and keeps one product."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from types import SimpleNamespace

from torch import nn
from transformers import AutoModelForCausalLM
from transformers.integrations import use_experts_implementation

import patchgen.runtime  # noqa: F401  (registers the implementation)
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from patchgen.verifying.observe.evidence import SavedStorages
from patchgen.verifying.observe.recorder import listening

EXPERTS, T, K, D, F = 5, 40, 3, 16, 24
LEAN = SimpleNamespace(_experts_implementation="lean")


@use_experts_implementation
class Experts(nn.Module):
    """Gate and up in one weight; the forward here is the loop over experts."""

    def __init__(self, config):
        super().__init__()
        self.num_experts, self.act_fn = EXPERTS, nn.SiLU()
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * F, D) / 4)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, D, F) / 4)

    def forward(self, x_TD, choice_TK, weights_TK):
        out_TD = torch.zeros_like(x_TD)
        for expert in range(EXPERTS):
            token, place = torch.where(choice_TK == expert)
            inner = self._apply_gate(x_TD[token] @ self.gate_up_proj[expert].t())
            out = inner @ self.down_proj[expert].t() * weights_TK[token, place, None]
            out_TD = out_TD.index_add(0, token, out)
        return out_TD


@use_experts_implementation(has_gate=False, is_transposed=True)
class TransposedExperts(nn.Module):
    """Weights with the input features first, without a gate."""

    def __init__(self, config):
        super().__init__()
        self.num_experts, self.act_fn = EXPERTS, nn.GELU()
        self.up_proj = nn.Parameter(torch.randn(EXPERTS, D, F) / 4)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, F, D) / 4)

    def forward(self, x_TD, choice_TK, weights_TK):
        out_TD = torch.zeros_like(x_TD)
        for expert in range(EXPERTS):
            token, place = torch.where(choice_TK == expert)
            out = self.act_fn(x_TD[token] @ self.up_proj[expert]) @ self.down_proj[expert]
            out_TD = out_TD.index_add(0, token, out * weights_TK[token, place, None])
        return out_TD


def drawn(dtype=torch.float64, kind=Experts):
    torch.manual_seed(0)
    experts = kind(LEAN).to(dtype)
    # The last expert is never chosen.
    choice_TK = torch.stack([torch.randperm(EXPERTS - 1)[:K] for _ in range(T)])
    return experts, torch.randn(T, D).to(dtype), choice_TK, torch.rand(T, K).to(dtype)


def looped(experts, *given):
    experts.config = SimpleNamespace(_experts_implementation="eager")
    out = experts(*given)
    experts.config = LEAN
    return out


@pytest.mark.parametrize("kind", [Experts, TransposedExperts])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_and_every_gradient_are_those_of_the_loop(dtype, kind):
    experts, x_TD, choice_TK, weights_TK = drawn(dtype, kind)
    inputs = (x_TD.requires_grad_(), weights_TK.requires_grad_(), *experts.parameters())
    slopes = torch.linspace(-1, 1, T * D, dtype=dtype).view(T, D)
    ours = experts(x_TD, choice_TK, weights_TK)
    theirs = looped(experts, x_TD, choice_TK, weights_TK)
    assert torch.allclose(ours, theirs, rtol=0, atol=64 * torch.finfo(dtype).eps)
    our_grads = torch.autograd.grad((ours * slopes).sum(), inputs)
    their_grads = torch.autograd.grad((theirs * slopes).sum(), inputs)
    for one, other in zip(our_grads, their_grads, strict=True):
        assert (one - other).abs().max() <= 64 * torch.finfo(dtype).eps * other.abs().max()


def test_what_is_kept_is_one_product_and_the_arguments():
    experts, x_TD, choice_TK, weights_TK = drawn(torch.float32)
    x_TD.requires_grad_()
    with listening(saved := SavedStorages(experts)):
        experts(x_TD, choice_TK, weights_TK)
    kept = sum(each.bytes for each in saved.storages)
    pairs = T * K
    assert kept == 4 * (pairs * 2 * F + T * D + T * K) + 8 * 2 * pairs + 4 * EXPERTS


def test_frozen_experts_pass_gradients_on():
    experts, x_TD, choice_TK, weights_TK = drawn()
    experts.requires_grad_(False)
    experts(x_TD.requires_grad_(), choice_TK, weights_TK).sum().backward()
    loss = looped(experts, x_TD, choice_TK, weights_TK).sum()
    (expected,) = torch.autograd.grad(loss, x_TD)
    assert experts.down_proj.grad is None and torch.allclose(x_TD.grad, expected)


def test_autocast_computes_in_its_dtype_and_returns_gradients_in_the_dtype_of_the_weights():
    experts, x_TD, choice_TK, weights_TK = drawn(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = experts(x_TD, choice_TK, weights_TK)
    out.sum().backward()
    assert out.dtype == experts.gate_up_proj.grad.dtype == torch.float32
    theirs = looped(experts, x_TD, choice_TK, weights_TK)
    assert 0 < (out - theirs).abs().max() <= 0.05 * theirs.abs().max(), "rounded, and no more"


def test_an_expert_of_another_process_counts_nothing():
    """transformers gives it the number of experts as its number, and the weight zero."""
    experts, x_TD, choice_TK, weights_TK = drawn()
    here = weights_TK * (choice_TK != 1)
    expected = looped(experts, x_TD, choice_TK, here)
    elsewhere = choice_TK.masked_fill(choice_TK == 1, EXPERTS)
    assert torch.allclose(experts(x_TD, elsewhere, here), expected)


def test_second_derivatives_are_refused():
    experts, x_TD, choice_TK, weights_TK = drawn()
    out = experts(x_TD.requires_grad_(), choice_TK, weights_TK).square().sum()
    (gradient,) = torch.autograd.grad(out, x_TD, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("has_bias", True, "biases"),
        ("has_post_expert_norm", True, "a norm of the outputs"),
        ("act_fn", nn.PReLU(), "an activation with parameters"),
        ("act_fn", nn.Sequential(nn.SiLU(), nn.Dropout(0.1)), "dropout"),
    ],
    ids=["biases", "norm", "parameters", "dropout"],
)
def test_what_is_not_computed_is_refused(name, value, message):
    experts, *given = drawn(torch.float32)
    setattr(experts, name, value)
    with pytest.raises(ValueError, match=f"does not compute {message}"):
        experts(*given)


def test_compiled_the_same_comes_out():
    experts, x_TD, choice_TK, weights_TK = drawn(torch.float32)
    inputs = (x_TD.requires_grad_(), experts.gate_up_proj, experts.down_proj)
    compiled = torch.compile(experts, backend="aot_eager", fullgraph=True)
    ours = compiled(x_TD, choice_TK, weights_TK)
    theirs = experts(x_TD, choice_TK, weights_TK)
    assert torch.allclose(ours, theirs, atol=1e-5)
    our_grads = torch.autograd.grad(ours.square().sum(), inputs)
    their_grads = torch.autograd.grad(theirs.square().sum(), inputs)
    for one, other in zip(our_grads, their_grads, strict=True):
        assert (one - other).abs().max() <= 1e-4 * other.abs().max()


def test_without_grouped_gemm_the_same_comes_out(monkeypatch):
    experts, x_TD, choice_TK, weights_TK = drawn(torch.float32)
    grouped = experts(x_TD, choice_TK, weights_TK)
    first = torch.autograd.grad(grouped.square().sum(), experts.gate_up_proj)
    monkeypatch.setattr("patchgen.runtime.grouped_gemm.GROUPED_MM", None)
    one_by_one = experts(x_TD, choice_TK, weights_TK)
    second = torch.autograd.grad(one_by_one.square().sum(), experts.gate_up_proj)
    assert torch.allclose(grouped, one_by_one, atol=1e-5)
    assert torch.allclose(*first, *second, atol=1e-4)


@pytest.mark.parametrize("model", ["qwen3_moe", "mixtral"])
@pytest.mark.parametrize(
    ("other", "dtype"), [("grouped_mm", torch.float32), ("eager", torch.float64)]
)
def test_a_model_of_transformers_trains_as_with_its_own_experts(model, other, dtype):
    losses, gradients = [], []
    for implementation in ("lean", other):
        config = tiny_config(model)
        made = AutoModelForCausalLM.from_config(config, experts_implementation=implementation)
        made = made.to(dtype).train()
        draw_weights(made, 0)
        given = batch("left").inputs()
        loss = made(**given).loss
        loss.backward()
        losses.append(loss.detach())
        gradients.append({name: each.grad for name, each in made.named_parameters()})
    eps = torch.finfo(dtype).eps
    assert torch.allclose(*losses, rtol=64 * eps, atol=0)
    for name, ours in gradients[0].items():
        theirs = gradients[1][name]
        if theirs is None:  # an expert that no token chose
            theirs = torch.zeros_like(ours)
        assert (ours - theirs).abs().max() <= 1024 * eps * theirs.abs().max(), name
