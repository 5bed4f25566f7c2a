"""`patchgen unpatch` on programs of the kinds that people write: what is written, and what is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.toytree import REPOSITORY, environment

MODEL = """
import functools, types
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama
config = LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=64,
)
"""
RUN = """
print("to be seen on stderr")
LlamaForCausalLM(config)(torch.arange(9)[None])
raise SystemExit("what follows the first forward is not run")
"""
OBJECT = """
model = LlamaForCausalLM(config)
"""
RUN_OBJECT = """
model(torch.arange(9)[None])
"""


def run(folder, text, *options, command=("python", "train.py"), path=REPOSITORY):
    (folder / "train.py").write_text(text, encoding="utf-8")
    argv = [sys.executable, "-m", "patchgen", "unpatch", "--output-format", "json", *options]
    done = subprocess.run(
        [*argv, "--", *command],
        cwd=folder,
        env=environment(PYTHONPATH=f"{REPOSITORY}{os.pathsep}{path}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def named(report, why):
    return {one["target"]: one[why] for one in report["differences"] if one[why]}


def test_functions_of_the_script_come_along_and_dead_ones_are_named(tmp_path):
    # LongLoRA and FastChat: functions of the script, of a module beside it, and a class.
    (tmp_path / "helpers.py").write_text(
        "import argparse\nLIMIT = argparse.Namespace and 7.0\n\n\n"
        "def clamp(x):\n    return x.clamp(-LIMIT, LIMIT)\n",
        encoding="utf-8",
    )
    text = f"""{MODEL}
from helpers import clamp

def forward(self, x):
    return self.down_proj(clamp(self.act_fn(self.gate_proj(x))) * self.up_proj(x))

class Norm(nn.RMSNorm):
    def __init__(self, size, eps=1e-6):
        super().__init__(size, eps=2 * eps)

modeling_llama.LlamaMLP.forward = forward
modeling_llama.LlamaRMSNorm = Norm
modeling_llama.apply_rotary_emb = clamp  # nobody reads it
modeling_llama.LlamaModel._prepare_decoder_attention_mask = clamp  # gone since 4.36
{RUN}"""
    done, report = run(tmp_path, text, "--out", "modular")
    assert done.returncode == 0, done.stderr
    assert "to be seen on stderr" in done.stderr
    written = (tmp_path / "modular/modular_llama_patched.py").read_text(encoding="utf-8")
    assert "LIMIT = 7.0" in written and "class Norm(nn.RMSNorm):" in written
    assert {*named(report, "dead")} == {
        "apply_rotary_emb",
        "LlamaModel._prepare_decoder_attention_mask",
    }
    assert report["differences"][0]["at"].startswith(("train.py:", "helpers.py:"))
    assert {name for name, one in report["equal"].items() if one.get("largest") == 0.0} >= {
        "LlamaForCausalLM",
        "LlamaForSequenceClassification",
    }


@pytest.mark.slow
def test_a_method_on_every_instance_is_one_of_the_class(tmp_path):
    text = f"""{MODEL}{OBJECT}
def forward(self, x):
    return self.scale * self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

for module in model.modules():
    if isinstance(module, modeling_llama.LlamaMLP):
        module.scale = 0.5
        module.forward = types.MethodType(forward, module)
{RUN_OBJECT}"""
    done, report = run(tmp_path, text)
    assert done.returncode == 0, (report, done.stderr)
    assert report["equal"]["LlamaForCausalLM"]["largest"] == 0.0
    assert "scale = 0.5" in report["models"][0]["text"]


# One program does all of these: the target that is named as not written, and a word of the reason.
LEFT = {
    "one instance of two": (
        """
def half(self, x):
    return x

mlp = model.model.layers[0].mlp
mlp.forward = types.MethodType(half, mlp)
""",
        "LlamaMLP.forward",
        "1 of 2 instances",
    ),
    "NEFTune": (
        """
def add_noise(module, args, output):
    return output + torch.randn_like(output)

model.get_input_embeddings().register_forward_hook(add_noise)
""",
        "model.embed_tokens",
        "hook",
    ),
    "a partial of the instance's own forward": (
        """
def outer(self, inner, *args, **kwargs):
    return inner(*args, **kwargs)

for layer in model.model.layers:
    layer.forward = functools.partial(outer, layer, layer.forward)
""",
        "LlamaDecoderLayer.forward",
        "",
    ),
    "a closure over a tensor": (
        """
def patched(scale):
    def forward(self, x):
        return scale * self.weight * x
    return forward

modeling_llama.LlamaRMSNorm.forward = patched(torch.ones(()))
""",
        "LlamaRMSNorm.forward",
        "a closure that reads scale, a torch.Tensor",
    ),
    "a class that one layer of two was given": (
        """
class Other(modeling_llama.LlamaAttention):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs)

model.model.layers[1].self_attn.__class__ = Other
""",
        "model.layers.1.self_attn",
        "a class of its own",
    ),
    "a layer put there by hand": (
        """
class Low(nn.Linear):
    pass

model.lm_head = Low(32, 64, bias=False)
""",
        "lm_head",
        "a class of its own",
    ),
    "a function of torch": (
        """
whole = nn.functional.silu
nn.functional.silu = lambda x, inplace=False: whole(x)
""",
        "functional.silu",
        "changes torch for everybody",
    ),
}
# What can be written stands beside it, and the program is a module with an argument.
WRITTEN = """
import sys
scale = float(sys.argv[1])

def rotate(x):
    return scale * x

modeling_llama.rotate_half = rotate
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The one run of all of them."""
    parts = [MODEL, OBJECT, *(text for text, _, _ in LEFT.values()), WRITTEN, RUN_OBJECT]
    command = ("python", "-u", "-m", "train", "0.5")
    folder = tmp_path_factory.mktemp("left")
    return run(folder, "".join(parts), "--no-verify", command=command)


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_written_is_named(left, name):
    done, report = left
    _, target, why = LEFT[name]
    assert done.returncode == 1
    assert why in named(report, "why_not")[target]
    assert target not in named(report, "dead")


def test_a_module_runs_with_its_arguments(left):
    _, report = left
    assert "rotate_half" not in named(report, "why_not")
    assert "scale = 0.5" in report["models"][0]["text"]


@pytest.mark.slow
def test_closures_over_what_text_can_say_are_written(tmp_path):
    # A wrapper of the method that it replaces, a lambda, and a partial of literals.
    text = f"""{MODEL}
def wrapped(inner, scale):
    def forward(self, x):
        return scale * inner(self, x)
    return forward

def rotate(q, k, cos, sin, unsqueeze_dim=1, scale=1.0):
    return scale * q, k

modeling_llama.LlamaMLP.forward = wrapped(modeling_llama.LlamaMLP.forward, 0.25)
modeling_llama.LlamaRMSNorm.forward = lambda self, x: x * self.weight
modeling_llama.apply_rotary_pos_emb = functools.partial(rotate, scale=2.0)
{RUN}"""
    done, report = run(tmp_path, text)
    assert done.returncode == 0, (report, done.stderr)
    assert report["equal"]["LlamaForCausalLM"]["largest"] == 0.0


@pytest.mark.slow
def test_wrappers_call_super(tmp_path):
    # Of functools.wraps with and without its own parameters, of `__init__`, and a partialmethod.
    text = f"""{MODEL}
def scaled(scale):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return scale * function(*args, **kwargs)
        return wrapper
    return decorate

modeling_llama.LlamaMLP.forward = scaled(0.5)(modeling_llama.LlamaMLP.forward)
whole = modeling_llama.LlamaAttention.forward
init = modeling_llama.LlamaAttention.__init__

@functools.wraps(whole)
def attention(self, hidden_states, *args, **kwargs):
    out, weights = whole(self, self.norm(hidden_states), *args, **kwargs)
    return 0.9 * out, weights

def with_norm(self, config, layer_idx):
    init(self, config, layer_idx)
    self.norm = modeling_llama.LlamaRMSNorm(config.hidden_size)

modeling_llama.LlamaAttention.forward = attention
modeling_llama.LlamaAttention.__init__ = with_norm

def norm(self, x, power):
    return self.weight * x * power

modeling_llama.LlamaRMSNorm.forward = functools.partialmethod(norm, power=0.5)
{RUN}"""
    done, report = run(tmp_path, text)
    assert done.returncode == 0, (report, done.stderr)
    assert report["equal"]["LlamaForCausalLM"]["largest"] == 0.0
    written = report["models"][0]["text"]
    assert "return scale * super().forward(*args, **kwargs)" in written
    assert "super().__init__(config, layer_idx)" in written
    assert "super().forward(self.norm(hidden_states), *args, **kwargs)" in written
    assert "wraps" not in written


@pytest.mark.slow
def test_exec_globals_and_given_classes_are_written(tmp_path):
    # Unsloth executes texts that it made; others count calls, or give layers another class.
    text = f"""{MODEL}{OBJECT}
import inspect, textwrap

source = textwrap.dedent(inspect.getsource(modeling_llama.LlamaDecoderLayer.forward))
source = source.replace("residual + hidden_states", "residual + 0.5 * hidden_states")
space = dict(vars(modeling_llama), __name__="compiled")
exec(source, space)
modeling_llama.LlamaDecoderLayer.forward = space["forward"]
calls, limit = 0, 0.5

def norm(self, x):
    global calls, limit
    calls += 1
    return self.weight * x * limit

class Scaled(modeling_llama.LlamaMLP):
    def forward(self, x):
        return 0.5 * super().forward(x)

modeling_llama.LlamaRMSNorm.forward = norm
for layer in model.model.layers:
    layer.mlp.__class__ = Scaled
{RUN_OBJECT}"""
    done, report = run(tmp_path, text)
    assert done.returncode == 0, (report, done.stderr)
    assert report["equal"]["LlamaForCausalLM"]["largest"] == 0.0
    written = report["models"][0]["text"]
    assert "0.5 * hidden_states" in written and "calls = 0" in written
    assert "return 0.5 * super().forward(x)" in written


@pytest.mark.slow
def test_a_package_of_another_folder_is_imported_with_what_it_logs(tmp_path):
    # Axolotl from a checkout: `PYTHONPATH=src`, and a logger that is Accelerate's adapter.
    (tmp_path / "src/hooks").mkdir(parents=True)
    (tmp_path / "src/hooks/__init__.py").write_text(
        "import logging\n\n\nclass Adapter(logging.LoggerAdapter):\n    pass\n\n\n"
        "LOG = Adapter(logging.getLogger(__name__), {})\n\n\n"
        "def half(x):\n    return 0.5 * x\n\n\n"
        "def make(model):\n    def forward(self, x):\n        LOG.debug('half')\n"
        "        return half(x)\n    model.LlamaMLP.forward = forward\n",
        encoding="utf-8",
    )
    text = f"{MODEL}import hooks\nhooks.make(modeling_llama)\n{RUN}"
    done, report = run(tmp_path, text, path=tmp_path / "src")
    assert done.returncode == 0, (report, done.stderr)
    assert report["equal"]["LlamaForCausalLM"]["largest"] == 0.0
    assert 'LOG = Adapter(getLogger("hooks"), {})' in report["models"][0]["text"]


@pytest.mark.slow
def test_a_class_that_came_after_the_model_has_no_effect(tmp_path):
    text = f"{MODEL}{OBJECT}modeling_llama.LlamaMLP = nn.Identity\n"
    text += f"modeling_llama.LlamaRMSNorm.forward = lambda self, x: x\n{RUN_OBJECT}"
    done, report = run(tmp_path, text)
    assert done.returncode == 0, (report, done.stderr)
    assert "built before" in named(report, "dead")["LlamaMLP"]


def test_a_program_that_fails_before_its_model_says_what_it_had_patched(tmp_path):
    text = f"{MODEL}modeling_llama.LlamaMLP.forward = lambda self, x: x\nopen('no.jsonl')\n"
    done, report = run(tmp_path, text)
    assert done.returncode == 1
    assert report["error"].startswith("FileNotFoundError") and not report["models"]
    assert [one["target"] for one in report["differences"]] == ["LlamaMLP.forward"]


def test_a_command_without_python_is_refused(tmp_path):
    argv = [sys.executable, "-m", "patchgen", "unpatch", "--", "torchrun", "train.py"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode and "PG860" in done.stderr


def test_the_function_reports_the_models_of_its_own_process(tmp_path):
    """Models that nobody has patched differ in nothing."""
    text = f"""{MODEL}
import patchgen, transformers

for name in ("Gemma", "Mixtral", "T5", "Bert", "ViT"):
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(getattr(transformers, name + "Config")())
    report = patchgen.unpatch(model, verify=False)
    assert not report.differences, report.text()

def forward(self, x):
    return 0.5 * x

modeling_llama.LlamaMLP.forward = forward
report = patchgen.unpatch(LlamaForCausalLM(config), write="modular", verify=False)
assert report.is_complete, report.text()
"""
    (tmp_path / "here.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "here.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "modular/modular_llama_patched.py").read_text(encoding="utf-8")
    assert "return 0.5 * x" in written
