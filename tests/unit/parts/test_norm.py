"""The norm part: each form of RMSNorm against the one that it is for, and LayerNorm under autocast."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.llama4.modeling_llama4 import Llama4TextL2Norm
from transformers.models.moshi.modeling_moshi import MoshiRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

from patchgen.parts.norm import (
    FusedOffsetRMSNorm,
    FusedRMSNorm,
    FusedScaledEpsRMSNorm,
    FusedScaledRMSNorm,
    FusedUnweightedRMSNorm,
    LowPrecisionLayerNorm,
)

D, EPS = 24, 0.3
FORMS = {
    "llama": (FusedRMSNorm, LlamaRMSNorm),
    "olmo2": (FusedScaledRMSNorm, Olmo2RMSNorm),
    "moshi": (FusedScaledEpsRMSNorm, MoshiRMSNorm),
    "gemma2": (FusedOffsetRMSNorm, Gemma2RMSNorm),
    "llama4": (FusedUnweightedRMSNorm, Llama4TextL2Norm),
}
forms = pytest.mark.parametrize(("mixin", "parent"), FORMS.values(), ids=FORMS)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


def built(mixin, parent, dtype):
    """The parent's norm and the fused one, of the same weight."""
    given = () if parent is Llama4TextL2Norm else (D,)
    theirs, ours = (
        kind(*given, eps=EPS).to(dtype) for kind in (parent, type("Fused", (mixin, parent), {}))
    )
    for parameter in theirs.parameters():
        parameter.data += (0.3 * torch.randn(D, generator=torch.Generator().manual_seed(1))).to(
            dtype
        )
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def rows(dtype, scale=1.0):
    return (
        (scale * torch.randn(3, 5, D, generator=torch.Generator().manual_seed(0)))
        .to(dtype)
        .requires_grad_()
    )


def step(norm, x):
    out = norm(x)
    (out.float() * torch.linspace(-1, 1, D)).sum().backward()
    return [out, x.grad, *(parameter.grad for parameter in norm.parameters())]


@forms
@dtypes
def test_rounds_where_the_parent_rounds(mixin, parent, dtype):
    theirs, ours = built(mixin, parent, dtype)
    expected, found = step(theirs, rows(dtype)), step(ours, rows(dtype))
    assert expected[0].dtype == found[0].dtype
    assert torch.equal(expected[0], found[0])
    # Gradients are added up in another order.
    for one, two in zip(expected[1:], found[1:], strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(
            two, one, rtol=4 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps
        )


@forms
@pytest.mark.parametrize("x_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_of_another_dtype_give_the_parents_dtype(mixin, parent, x_dtype):
    weight_dtype = torch.bfloat16 if x_dtype == torch.float32 else torch.float32
    theirs, ours = built(mixin, parent, weight_dtype)
    expected, found = theirs(rows(x_dtype)), ours(rows(x_dtype))
    assert expected.dtype == found.dtype
    assert torch.equal(expected, found)


@forms
def test_stays_float64(mixin, parent):
    theirs, ours = built(mixin, parent, torch.float64)
    out = ours(rows(torch.float64))
    assert out.dtype == torch.float64
    torch.testing.assert_close(out, theirs(rows(torch.float64)).double(), rtol=1e-6, atol=1e-6)


def test_epsilon_counts():
    theirs, ours = built(FusedRMSNorm, LlamaRMSNorm, torch.float32)
    small = rows(torch.float32, scale=0.01)
    assert torch.equal(theirs(small), ours(small))
    assert (ours(small) - nn.functional.rms_norm(small, (D,), ours.weight, 0.0)).abs().max() > 0.5


def test_the_added_one_survives_bfloat16():
    """A weight of a five-hundredth is lost in a bfloat16 one; the planted error leaves out the one itself."""
    theirs, ours = built(FusedOffsetRMSNorm, Gemma2RMSNorm, torch.bfloat16)
    with torch.no_grad():
        theirs.weight.fill_(0.002)
        ours.weight.fill_(0.002)
    x = rows(torch.bfloat16, scale=4)
    assert torch.equal(theirs(x), ours(x))
    lost = nn.functional.rms_norm(x, (D,), 1 + ours.weight, EPS)
    assert not torch.equal(lost, theirs(x))


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"elementwise_affine": False}], ids=str)
class TestLayerNorm:
    def pair(self, settings):
        theirs, ours = (
            kind(D, eps=EPS, **settings) for kind in (nn.LayerNorm, LowPrecisionLayerNorm)
        )
        for parameter in theirs.parameters():
            parameter.data += 0.3 * torch.randn(D, generator=torch.Generator().manual_seed(1))
        ours.load_state_dict(theirs.state_dict())
        return theirs, ours

    @dtypes
    def test_is_torchs_without_autocast(self, settings, dtype):
        theirs, ours = (norm.to(dtype) for norm in self.pair(settings))
        for one, two in zip(step(theirs, rows(dtype)), step(ours, rows(dtype)), strict=True):
            assert torch.equal(one, two)

    def test_works_in_the_dtype_of_autocast(self, settings):
        theirs, ours = self.pair(settings)
        with torch.autocast("cpu", torch.bfloat16):
            found = step(ours, rows(torch.float32))
        expected = step(theirs, rows(torch.float32))
        assert found[0].dtype == torch.bfloat16
        assert {each.dtype for each in found[1:]} == {torch.float32}
        for one, two in zip(expected, found, strict=True):
            torch.testing.assert_close(two.float(), one, rtol=0.05, atol=0.05)
