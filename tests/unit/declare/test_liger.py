"""`patchgen new --with liger`: which statements a kernel of Liger takes the place of."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import Module, find_module, make_module, open_module
from patchgen.author.declare.liger import liger
from patchgen.author.declare.request import answer
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
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
    return {one.name: one.mixins for one in liger(module).declared}


def changed(module: Module, old: str, new: str) -> Module:
    """The module with another statement."""
    assert old in module.source.text
    text = module.source.text.replace(old, new)
    source = make_source(text, module.source.path, module.name)
    return replace(make_module(module.name, source), folder=module.folder)


@pytest.mark.parametrize(
    ("model", "expected"),
    {
        "llama": {"RMSNorm": "LigerRMSNorm", "Attention": "LigerRotary", "MLP": "LigerSwiGLU"},
        "gemma2": {
            "RMSNorm": "LigerOffsetRMSNorm",
            "Attention": "LigerRotary",
            "MLP": "LigerGeGLU",
            "ForCausalLM": "LigerSoftcappedLoss",
        },
        "phi3": {
            "RMSNorm": "LigerRMSNorm",
            "Attention": "LigerRotary",
            "MLP": "LigerChunkedSwiGLU",
        },
        "granite": {"ForCausalLM": "LigerDividedLoss"},
        "olmo2": {"RMSNorm": "LigerScaledRMSNorm", "Attention": "LigerRotary"},
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
        (
            "logits = self.lm_head(hidden_states)\n",
            "logits = self.lm_head(hidden_states).sigmoid()\n",
            "ForCausalLM",
        ),
    ],
)
def test_other_statements_stay(llama, old, new, lost):
    found = mixins(changed(llama, old, new))
    assert set(mixins(llama)) - set(found) == {f"Llama{lost}"}


def test_without_liger_the_file_says_how_to_install_it(env, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    path = tmp_path / "modular" / "llama" / "modular_llama_liger.py"
    path.parent.mkdir(parents=True)
    path.write_text(answer(env, "llama", ["liger"]).text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.patchgen]\nsources = ["modular"]\n')
    flat = flatten(path, make_environment(tmp_path), Settings())
    (modeling,) = (file for file in flat.files if file.name.startswith("modeling_"))
    (tmp_path / "modeling.py").write_text(modeling.text, encoding="utf-8")
    loaded = {name for name in sys.modules if name.startswith("liger_kernel.")}
    for name in {"liger_kernel"} | loaded:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="are not installed: pip install liger-kernel"):
        runpy.run_path(str(tmp_path / "modeling.py"))
