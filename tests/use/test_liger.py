"""Variants with Liger's kernels compute what their parents do: in float32, by Triton's interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("liger_kernel")

from patchgen.author.declare.request import answer
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.toytree import environment

SCRIPT = Path(__file__).with_name("liger_in_interpreter.py")
TINY = {
    "vocab_size": 37,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-2,
}
MODELS = {
    "llama": ("LlamaForCausalLM", {}),
    "qwen3": ("Qwen3ForCausalLM", {}),
    "gemma2": ("Gemma2ForCausalLM", {"final_logit_softcapping": 2.0}),  # GeGLU, an added one
    "granite": ("GraniteForCausalLM", {"logits_scaling": 3.0}),
    "olmo2": ("Olmo2ForCausalLM", {}),  # the weight in float32
    "phi3": (
        "Phi3ForCausalLM",
        {"partial_rotary_factor": 0.5},
    ),  # part of each head, halves of one product
}
BOUND = 1e-5  # of float32, over one layer; 8e-7 at most was seen


@pytest.mark.slow
@pytest.mark.timeout(900)  # the interpreter runs one row at a time
@pytest.mark.parametrize("model", MODELS)
def test_computes_what_its_parent_does(tmp_path, model):
    path = tmp_path / "modular" / model / f"modular_{model}_kernels.py"
    path.parent.mkdir(parents=True)
    path.write_text(answer(make_environment(Path.cwd()), model, ["kernels"]).text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.patchgen]\nsources = ["modular"]\n')
    flat = flatten(path, make_environment(tmp_path), Settings())
    assert not flat.problems
    (modeling,) = (file for file in flat.files if file.name.startswith("modeling_"))
    (tmp_path / "modeling.py").write_text(modeling.text, encoding="utf-8")

    head, more = MODELS[model]
    parent = f"transformers.models.{model}.modeling_{model}"
    ran = subprocess.run(
        [sys.executable, SCRIPT, parent, head, json.dumps(TINY | more)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert len(found) > 15
    assert {name: far for name, far in found.items() if not far < BOUND} == {}
