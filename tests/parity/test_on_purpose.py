"""What differs on purpose, as users write it: declared it passes, and what is wrong beside it is seen."""

import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases.select import select_cases
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.report.result import Result
from patchgen.verify.selection import Plan
from patchgen.verify.variants import find_variant_at

PYPROJECT = '[tool.patchgen]\nsources = ["mine"]\noutputs = {{ mine = "made_{name}" }}\n'
PLAN = Plan(dtypes=("float64", "bfloat16"))
IMPORT = "from transformers.models.llama import modeling_llama as llama\n"

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
TAU = """
{declared}

class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = self.scaling / getattr(config, "tau", {default})
"""


@dataclass(frozen=True)
class Change:
    """A modular file; `fails` is in the cause of its first FAIL, "" where nothing fails."""

    name: str
    text: str
    fails: str = ""

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
    Change(
        "a temperature, declared and one by default",
        TAU.format(declared='__differs__ = {"config.tau": "scores divided"}\n', default="1.0"),
    ),
    Change(
        "a temperature, declared and two by default",
        TAU.format(declared='__differs__ = {"config.tau": "scores divided"}\n', default="2.0"),
        "`LlamaAttention` (`self_attn`) gives other values",
    ),
)


def failures(folder: Path, change: Change) -> list[Result]:
    (folder / "pyproject.toml").write_text(
        PYPROJECT.format(name=f"{CHANGES.index(change)}"), encoding="utf-8"
    )
    modular = folder / "mine" / "modular_llama_changed.py"
    modular.parent.mkdir()
    edits = "from patchgen.edits import Hole, edit, new, old\n" if "@edit" in change.text else ""
    edits += "from transformers import initialization as init\n" if "init." in change.text else ""
    modular.write_text(f"{edits}{IMPORT}{change.text}", encoding="utf-8")
    command = [sys.executable, "-m", "patchgen", "convert"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    variant = find_variant_at(modular)
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
