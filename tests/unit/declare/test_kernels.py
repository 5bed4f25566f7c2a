"""`patchgen new --with kernels`: which statements a kernel of Liger takes the place of."""

from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import Module, find_module, make_module, open_module
from patchgen.author.declare.kernels import kernels
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


@pytest.fixture(scope="module")
def llama(env):
    return open_module(env, "transformers.models.llama.modeling_llama")


def mixins(module: Module) -> dict[str, tuple[str, ...]]:
    return {one.name: one.mixins for one in kernels(module).declared}


def changed(module: Module, old: str, new: str) -> Module:
    """The module with another statement."""
    assert old in module.source.text
    text = module.source.text.replace(old, new)
    source = make_source(text, module.source.path, module.name)
    return replace(make_module(module.name, source), folder=module.folder)


@pytest.mark.parametrize(
    ("model", "expected"),
    {
        "llama": {"RMSNorm": "FastRMSNorm", "Attention": "FastRotary", "MLP": "FastSwiGLU"},
        "gemma2": {
            "RMSNorm": "FastOffsetRMSNorm",
            "Attention": "FastRotary",
            "MLP": "FastGeGLU",
        },
        "phi3": {
            "RMSNorm": "FastRMSNorm",
            "Attention": "FastRotary",
            "MLP": "FastChunkedSwiGLU",
        },
        "granite": {"RMSNorm": "FastRMSNorm", "Attention": "FastRotary", "MLP": "FastSwiGLU"},
        "olmo2": {"RMSNorm": "FastScaledRMSNorm", "Attention": "FastRotary"},
    }.items(),
)
def test_the_kernels_of_a_model(env, model, expected):
    found = mixins(open_module(env, find_module(env, model)))
    prefix = next(name for name in found if name.endswith("RMSNorm")).removesuffix("RMSNorm")
    for ending, mixin in expected.items():
        assert found[prefix + ending] == (mixin,)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        # The kernel rotates halves, and not neighbours.
        ("torch.cat((-x2, x1), dim=-1)", "torch.stack((-x2, x1), dim=-1).flatten(-2)", "Attention"),
        # It reads the first half of the cosines only.
        ("torch.cat((freqs, freqs), dim=-1)", "torch.cat((freqs, 2 * freqs), dim=-1)", "Attention"),
        # It rotates (batch, heads, tokens, features).
        (
            "apply_rotary_pos_emb(query_states, key_states, cos, sin)",
            "apply_rotary_pos_emb(query_states, key_states, cos, sin, unsqueeze_dim=2)",
            "Attention",
        ),
        ("hidden_states.pow(2).mean", "hidden_states.abs().mean", "RMSNorm"),
        ("self.act_fn(self.gate_proj(x)) *", "self.act_fn(self.gate_proj(x)) +", "MLP"),
        # One factor is broadcast to the shape of the other.
        ("* self.up_proj(x)", "* self.up_proj(x).mean(-1, keepdim=True)", "MLP"),
    ],
)
def test_other_statements_stay(llama, old, new, lost):
    found = mixins(changed(llama, old, new))
    assert set(mixins(llama)) - set(found) == {f"Llama{lost}"}
