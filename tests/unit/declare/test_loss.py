"""`patchgen new --with loss`: which mixin knows the statements of a head."""

import subprocess
import sys
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import make_module, open_module
from patchgen.author.declare.loss import loss
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

of_release = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


# What Llama's head does to its logits before the loss, and the mixin that takes it.
STEPS = {
    "": "ChunkedLoss",
    "logits = logits * self.config.scale": "ScaledChunkedLoss",
    "logits = logits / self.config.scale": "DividedChunkedLoss",
    "logits = logits / self.cap; logits = torch.tanh(logits); logits = logits * self.cap": (
        "AlwaysCappedChunkedLoss"
    ),
    "logits = logits * self.m; logits = logits / self.cap; logits = torch.tanh(logits); "
    "logits = logits * self.cap": ("ScaledCappedChunkedLoss"),
    # The last step alone looks like a head whose logits are scaled.
    "logits = logits + self.b; logits = torch.tanh(logits); logits = logits * self.cap": "",
    "logits = torch.tanh(logits)": "",
}


@of_release
@pytest.mark.parametrize(
    ("bias", "mixin"),
    [
        ("bias=False", "ChunkedLoss"),
        ("bias=True", "BiasedChunkedLoss"),
        ("bias=config.b", "BiasedChunkedLoss"),
    ],
)
def test_the_mixin_of_a_head_with_a_bias(env, bias, mixin):
    llama = open_module(env, "transformers.models.llama.modeling_llama")
    made = "self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)"
    assert made in llama.source.text
    text = llama.source.text.replace(made, made.replace("bias=False", bias))
    found = loss(make_module(llama.name, make_source(text, llama.source.path, llama.name)))
    assert {one.name: one.mixins for one in found.declared}["LlamaForCausalLM"] == (mixin,)


@of_release
@pytest.mark.parametrize(("steps", "mixin"), STEPS.items(), ids=[*map(str, range(len(STEPS)))])
def test_the_mixin_of_the_statements(env, steps, mixin):
    llama = open_module(env, "transformers.models.llama.modeling_llama")
    text, made = llama.source.text, "        logits = self.lm_head(hidden_states)\n"
    assert made in text
    text = text.replace(
        made, made + "".join(f"        {step}\n" for step in steps.split("; ") if step)
    )
    found = loss(make_module(llama.name, make_source(text, llama.source.path, llama.name)))
    declared = {one.name: one.mixins for one in found.declared}
    if mixin:
        assert declared["LlamaForCausalLM"] == (mixin,)
    else:
        assert "LlamaForCausalLM" not in declared
        assert any("LlamaForCausalLM" in one.what for one in found.missing)


# A model for each mixin that none of the gallery has, the smallest of those that it is written for.
CONVERTED = {
    "UnshiftedChunkedLoss": "marian",
    "ScaledChunkedLoss": "cohere",
    "DividedChunkedLoss": "granite",
    "BiasedChunkedLoss": "ctrl",
    "LabelledTokensByFunction": "luke",
}


@of_release
@of_release
@pytest.mark.parametrize(
    ("model", "written"),
    # T5Gemma caps its logits between the head and the loss.  ELECTRA's head is the second step.
    [
        ("t5gemma", False),
        ("t5gemma2", False),
        ("electra", True),
        ("convbert", True),
        ("bert", True),
    ],
)
def test_logits_that_change_behind_a_head_of_labelled_tokens(env, model, written):
    part = loss(open_module(env, f"transformers.models.{model}.modeling_{model}"))
    reasons = [missing.what for missing in part.missing if "changes its logits" in missing.what]
    assert part.fits is written
    assert bool(reasons) is not written


@pytest.mark.parametrize("mixin", CONVERTED)
def test_what_is_written_converts(mixin, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.patchgen]\nsources = ["modular"]\n')
    model = CONVERTED[mixin]
    for words in (["new", model, "--with", "loss", "--no-proof"], ["convert"]):
        done = subprocess.run(
            [sys.executable, "-m", "patchgen", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert mixin in (tmp_path / f"modular/{model}/modular_{model}_loss.py").read_text()
