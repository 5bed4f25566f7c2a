"""Experts in grouped products: each row gets what the layer of its expert gives it."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from patchgen.parts.grouped import grouped_linear, pairs_of  # noqa: E402
from patchgen.parts.stacked import stacked, stacked_linear, too_few  # noqa: E402

EXPERTS, D, F = 3, 16, 24
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(D, F)


def drawn(dtype):
    torch.manual_seed(0)
    experts = nn.ModuleList(Expert() for _ in range(EXPERTS)).to(dtype)
    choice_TK = torch.randint(EXPERTS, (40, 2))
    return experts, torch.randn(40, D).to(dtype).requires_grad_(), choice_TK


@DTYPES
def test_rows_with_a_bias_are_rounded_as_a_linear_layer_rounds_them(dtype):
    """NLLB-MoE was over its bound in bfloat16 while the bias was added to a product that had been rounded already."""
    experts, x_TD, choice_TK = drawn(dtype)
    pairs = pairs_of(choice_TK, EXPERTS)
    ours = pairs.back(stacked_linear(pairs.take(x_TD), experts, "up", pairs))
    theirs = torch.stack([experts[int(e)].up(x_TD) for e in range(EXPERTS)])  # (E, T, F)
    theirs = theirs[choice_TK, torch.arange(len(x_TD))[:, None]]
    twice = pairs.back(
        grouped_linear(pairs.take(x_TD), stacked(experts, "up.weight"), stacked(experts, "up.bias"), pairs)
    )
    near = 0.0 if dtype == torch.bfloat16 else 8 * torch.finfo(dtype).eps
    assert (ours - theirs).abs().max() <= near
    assert not torch.equal(twice, theirs) or dtype != torch.bfloat16

    weights = torch.linspace(-1, 1, ours.numel(), dtype=dtype).view(ours.shape)
    inputs = (x_TD, *experts.parameters())
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((theirs * weights).sum(), inputs),
        strict=True,
    ):
        assert (one - other).abs().max() <= 32 * torch.finfo(dtype).eps * other.abs().max()


def test_fewer_tokens_than_experts():
    assert too_few(torch.ones(2, D), [1, 2, 3]) and not too_few(torch.ones(3, D), [1, 2, 3])
