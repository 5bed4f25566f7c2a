"""PG741 to PG743 on variants of the installed Llama and Gemma 2: what is told, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.lint import with_findings
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source

HEAD = """from torch import nn

from transformers.models.llama import modeling_llama as llama


"""
# The whole of Llama's method, with one statement that a case changes.
APPLY = """class LlamaAttention(llama.LlamaAttention):
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)

        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

        cos, sin = position_embeddings
        query_states, key_states = llama.apply_rotary_pos_emb(query_states, key_states, cos, sin)

        if past_key_values is not None:
            key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)

        attention_interface = llama.ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, llama.eager_attention_forward
        )
        attn_output, attn_weights = attention_interface(
            self,
            query_states,
            key_states,
            value_states,
            attention_mask,
            dropout=0.0 if not self.training else self.attention_dropout,
            scaling=self.scaling,
            **kwargs,
        )

        attn_output = attn_output.reshape(*input_shape, -1).contiguous()
        attn_output = self.o_proj(attn_output)
        return attn_output, attn_weights
"""
ACT = "class LlamaMLP(llama.LlamaMLP):\n    def __init__(self, config):\n        super().__init__(config)\n        self.act_fn = nn.ReLU()\n\n"
CASES = {
    "an init that is left": (
        "class LlamaRMSNorm(llama.LlamaRMSNorm):\n"
        "    def __init__(self, hidden_size, eps):\n        super().__init__(hidden_size, eps=eps)\n\n"
        "    def forward(self, hidden_states):\n        return 2 * super().forward(hidden_states)\n",
        [("PG741", "LlamaRMSNorm.__init__")],
    ),
    "a forward that is left": (
        f"{ACT}    def forward(self, x):\n        'What it was.'\n        return super().forward(x)\n",
        [("PG741", "LlamaMLP.forward")],
    ),
    "what the parent says": (
        f"{ACT}    def forward(self, x: object):\n"
        "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n        return down_proj\n",
        [("PG741", "LlamaMLP.forward")],
    ),
    "a short override": (
        f"{ACT}    def forward(self, x):\n"
        "        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))\n        return down_proj\n",
        [],
    ),
    "None": (
        "class LlamaMLP(llama.LlamaMLP):\n    def forward(self, x):\n        super().forward(x.float())\n",
        [("PG742", "LlamaMLP.forward")],
    ),
    "a statement of twelve": (
        APPLY.replace("self.o_proj(attn_output)", "self.o_proj(attn_output.clamp(-8, 8))"),
        [("PG743", "LlamaAttention.forward")],
    ),
    "a copy": (
        APPLY,
        [("PG741", "LlamaAttention.forward")],
    ),
    "most statements": (
        APPLY.replace(".view(hidden_shape)", ".reshape(hidden_shape)").replace(
            "attn_output = attn_output", "attn_output = 2 * attn_output"
        ),
        [],
    ),
}


@pytest.mark.parametrize(("text", "findings"), CASES.values(), ids=CASES)
def test_what_a_method_does_for_nothing(
    text: str, findings: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "modular_llama_new.py"
    path.write_text(f"{HEAD}{text}")
    env = make_environment(tmp_path)
    source = read_source(path, "", env.display_path(path))
    flat = flatten(path, env, Settings())
    assert flat.problems == ()
    problems = with_findings(flat, source).problems
    assert [(problem.code, problem.what.split("`")[1]) for problem in problems] == findings
    for problem in problems:
        assert problem.severity == "warning"
        assert problem.what.split("`")[1].partition(".")[2] in source.lines[problem.at.line - 1]
