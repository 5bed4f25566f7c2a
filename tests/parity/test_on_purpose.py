"""What differs on purpose, as users write it: declared it passes, and what is wrong beside it is seen."""

import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.report import Result
from patchgen.verifying.variants import Plan
from tests.gallery import variant_at

PYPROJECT = '[tool.patchgen]\nsources = ["mine"]\noutputs = {{ mine = "made_{name}" }}\n'
PLAN = Plan(dtypes=("float64", "bfloat16"))
IMPORT = "from transformers.models.{0} import modeling_{0} as {0}\n"

NORMS = """
import torch
from torch import nn
{declared}

class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.q_norm = llama.LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = llama.LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)

    @edit("forward")
    def norm_queries(self, hidden_states: Hole, hidden_shape: Hole):
        with old:
            query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
            key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        with new:
            query_states = self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
            key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
"""
GATE = """
import torch

from torch import nn
{declared}

class LlamaMLP(llama.LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.gate = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(self, x):
        return super().forward(x) * (1 + {gate})
"""
NOISE = """
import torch
{declared}

class LlamaModel(llama.LlamaModel):
    @edit("forward")
    def noise(self, inputs_embeds: Hole, input_ids: Hole):
        with old:
            inputs_embeds: torch.Tensor = self.embed_tokens(input_ids)
        with new:
            inputs_embeds: torch.Tensor = self.embed_tokens(input_ids)
            if self.training:
                inputs_embeds = inputs_embeds + 0.1 * torch.rand_like(inputs_embeds)
"""
OWN_TAU = """
from huggingface_hub.dataclasses import strict
from transformers.models.llama import configuration_llama


@strict
class LlamaConfig(configuration_llama.LlamaConfig):
    tau: float = {default}


class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = self.scaling / config.tau
"""
TAU = """
{declared}

class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = self.scaling / getattr(config, "tau", {default})
"""


CHUNKS = """
import torch


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        parts = []
        for start in range(0, x.shape[1], SIZE):
            part = x[:, start : start + SIZE]
            parts.append(super().forward(part) OTHERWISE)
        return torch.cat(parts, 1)
"""
WINDOW = """
import torch
{declared}

class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):
    _supports_flash_attn = False  # which takes no mask of four axes
    _supports_flex_attn = False


class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.window = 3 if layer_idx % 2 else None

    def forward(self, hidden_states, position_embeddings, attention_mask=None, past_key_values=None, **kwargs):
        if self.window is not None:
            queries, cache = hidden_states.shape[1], past_key_values
            first = 0 if cache is None else cache.get_seq_length(self.layer_idx)
            keys = queries if cache is None else cache.get_mask_sizes(queries, self.layer_idx)[0]
            position = torch.arange(queries, device=hidden_states.device) + first
            back = position[:, None] - torch.arange(keys, device=hidden_states.device)
            seen = ((back >= 0) & (back < self.window))[None, None]
            if attention_mask is None:
                attention_mask = seen
            elif attention_mask.dtype == torch.bool:
                attention_mask = attention_mask & seen
            else:
                attention_mask = attention_mask.masked_fill(~seen, torch.finfo(attention_mask.dtype).min)
        return super().forward(hidden_states, position_embeddings, attention_mask, past_key_values, **kwargs)
"""


SHARED = """
{declared}

class LlamaModel(llama.LlamaModel):
    @edit("forward")
    def share(self):
        with old:
            for decoder_layer in self.layers[: self.config.num_hidden_layers]:
                ...
        with new:
            for index in range(self.config.num_hidden_layers):
                decoder_layer = self.layers[index - index % 2]
                decoder_layer.self_attn.layer_idx = {index}
                ...
"""
FUSED = """
import torch
from torch import nn


class T5Attention(t5.T5Attention):
    @edit("forward")
    def project_once(self, current_states: Hole, kv_shape: Hole):
        with old:
            key_states = self.k(current_states).view(kv_shape).transpose(1, 2)
            value_states = self.v(current_states).view(kv_shape).transpose(1, 2)
        with new:
            weight = torch.cat([{weights}])
            key_states, value_states = nn.functional.linear(current_states, weight).chunk(2, -1)
            key_states = key_states.reshape(kv_shape).transpose(1, 2)
            value_states = value_states.reshape(kv_shape).transpose(1, 2)
"""
ROTATION = """
import torch


class Gemma3Attention(gemma3.Gemma3Attention):
    @edit("forward")
    def rotate(self, query_states: Hole, key_states: Hole, cos: Hole, sin: Hole):
        with old:
            query_states, key_states = gemma3.apply_rotary_pos_emb(query_states, key_states, cos, sin)
        with new:
            query_states, key_states = rotated(query_states, cos, sin), rotated(key_states, cos, sin)


def rotated(states, cos, sin):
    first, second = states.chunk(2, -1)
    return states * cos[:, None] + torch.cat([{turned}], -1) * sin[:, None]
"""
CENTERED = """
import torch
{declared}

class MambaRMSNorm(mamba.MambaRMSNorm):
    def forward(self, hidden_states):
        wide = hidden_states.float()
        wide = wide - wide.mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)
"""


def chunked(size: str, otherwise: str = "") -> str:
    return CHUNKS.replace("SIZE", size).replace("OTHERWISE", otherwise)


@dataclass(frozen=True)
class Change:
    """A modular file; `fails` is in the cause of its first FAIL, "" where nothing fails."""

    name: str
    text: str
    fails: str = ""
    of: str = "llama"

    def __str__(self) -> str:
        return self.name


IS_SET = """

class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, LlamaMLP):
            init.zeros_(module.gate)
"""


def gate(declared: str, gate: str = "self.gate", after: str = IS_SET) -> str:
    return GATE.format(declared=declared, gate=gate) + after


SHARES = '__differs__ = {"LlamaModel": "two layers share their weights"}\n'
KEYS_FIRST = "self.k.weight, self.v.weight"
CLASS = '__differs__ = {"LlamaMLP": "a gate"}\n'
CHANGES = (
    Change(
        "norms, declared",
        NORMS.format(declared='__differs__ = {"LlamaAttention": "norms of queries and keys"}\n'),
    ),
    Change("norms, not declared", NORMS.format(declared=""), "q_norm.weight` is in no checkpoint"),
    Change("a gate that is neutral at zero", gate(CLASS + '__equal_if__ = {"gate": 0.0}\n')),
    Change(
        "a gate that is not neutral at zero",
        gate(CLASS + '__equal_if__ = {"gate": 0.0}\n', gate="self.gate + 0.01"),
        "`LlamaMLP` (`mlp`) gives other values",
    ),
    Change(
        "a gate that is not set",
        gate(CLASS, after=""),
        "`model.layers.*.mlp.gate` is in no checkpoint and `_init_weights` does not set it",
    ),
    Change(
        "a gate that gets no gradient",
        gate(CLASS, gate="self.gate.detach()"),
        "no gradient reaches `model.layers.*.mlp.gate`",
    ),
    Change(
        "noise in training, declared",
        NOISE.format(declared='__differs__ = {"training": "noise on the embeddings"}\n'),
    ),
    Change("noise in training", NOISE.format(declared=""), "gives other values"),
    Change("an MLP in chunks", chunked("512")),
    Change(
        "an MLP in chunks that forgets what is behind the second",
        chunked("512", "if start < 1024 else part"),
        "`LlamaMLP` (`mlp`) gives other values",
    ),
    Change(
        "a window in odd layers, declared",
        WINDOW.format(declared='__differs__ = {"LlamaAttention": "a window in odd layers"}\n'),
    ),
    Change("a window in odd layers", WINDOW.format(declared=""), "`LlamaAttention` (`self_attn`)"),
    Change(
        "a temperature, declared and one by default",
        TAU.format(declared='__differs__ = {"config.tau": "scores divided"}\n', default="1.0"),
    ),
    Change(
        "a temperature, declared and two by default",
        TAU.format(declared='__differs__ = {"config.tau": "scores divided"}\n', default="2.0"),
        "`LlamaAttention` (`self_attn`) gives other values",
    ),
    Change("a setting of its own configuration", OWN_TAU.format(default="1.0")),
    Change(
        "a setting of its own with another default",
        OWN_TAU.format(default="2.0"),
        "`LlamaAttention` (`self_attn`) gives other values",
    ),
    Change(
        "shared layers",
        SHARED.format(declared="", index="index"),
        "`LlamaModel` gives other values",
    ),
    Change("shared layers, declared", SHARED.format(declared=SHARES, index="index")),
    Change(
        "shared layers with one cache for two",
        SHARED.format(declared=SHARES, index="index - index % 2"),
        "RuntimeError: The size of tensor",  # in a cache
    ),
    Change("keys and values by one product", FUSED.format(weights=KEYS_FIRST), of="t5"),
    Change(
        "keys and values by one product, in the other order",
        FUSED.format(weights=", ".join(reversed(KEYS_FIRST.split(", ")))),
        "`T5Attention` (`SelfAttention`) gives other values",
        of="t5",
    ),
    Change("a rotation of its own", ROTATION.format(turned="-second, first"), of="gemma3"),
    Change(
        "a rotation the other way",
        ROTATION.format(turned="second, -first"),
        "`Gemma3Attention` (`self_attn`) gives other values",
        of="gemma3",
    ),
    Change(
        "another norm, declared",
        CENTERED.format(declared='__differs__ = {"MambaRMSNorm": "centered"}\n'),
        of="mamba",
    ),
    Change(
        "another norm",
        CENTERED.format(declared=""),
        "`MambaRMSNorm` (`norm`) gives other values",
        of="mamba",
    ),
)


def failures(folder: Path, change: Change) -> list[Result]:
    (folder / "pyproject.toml").write_text(
        PYPROJECT.format(name=f"{CHANGES.index(change)}"), encoding="utf-8"
    )
    modular = folder / "mine" / f"modular_{change.of}_changed.py"
    modular.parent.mkdir()
    edits = "from patchgen.edits import Hole, edit, new, old\n" if "@edit" in change.text else ""
    edits += "from transformers import initialization as init\n" if "init." in change.text else ""
    modular.write_text(f"{edits}{IMPORT.format(change.of)}{change.text}", encoding="utf-8")
    command = [sys.executable, "-m", "patchgen", "convert"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    variant = variant_at(modular)
    output = Path(folder, *variant.module.split(".")).with_suffix(".py")
    assert "__differs__" not in output.read_text(encoding="utf-8")
    bench, found = CaseRunner(variant), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in select_cases(variant, find_part_checks(variant.checked_parts), PLAN):
            if case.kind in ("compiled", "attention", "plans"):
                continue
            result = bench.run(case)
            found += [result] if result.status == "FAIL" else []
            if found and change.fails:
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_what_is_declared_passes_and_what_is_wrong_is_seen(change: Change, tmp_path):
    found = failures(tmp_path, change)
    if not change.fails:
        assert not found
    else:
        assert change.fails in (found[0].cause or found[0].note)
