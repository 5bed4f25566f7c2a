"""`patchgen new --with moe`: which FFN becomes a mixture, how, and what is said where none does."""

import ast
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import make_module, open_module
from patchgen.author.declare.moe import moe
from patchgen.author.declare.request import answer
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

of_release = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


# The mixture that is made, and the dense weights that go into it.
MADE = {
    "qwen2": (
        "self.mlp = Mixture(config, gated=True",
        ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"],
    ),
    "phi3": (
        "inner=self.mlp.gate_up_proj.out_features // 2",
        ["mlp.gate_up_proj", "mlp.down_proj"],
    ),
    "gpt_neox": (
        "self.mlp = Mixture(config, gated=False",
        ["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"],
    ),
    "roberta": ("self.output.dense = nn.Identity()", ["intermediate.dense", "output.dense"]),
    "gpt2": ("activation=self.mlp.act), self.mlp.dropout)", ["c_fc", "c_proj"]),
    "starcoder2": ("nn.Dropout(self.mlp.residual_dropout))", ["c_fc", "c_proj"]),
}


@of_release
@pytest.mark.parametrize(("model", "made", "weights"), [(m, *v) for m, v in MADE.items()], ids=MADE)
def test_each_form_of_ffn_becomes_a_mixture(env, model, made, weights):
    text = answer(env, model, ["moe"]).text
    assert made in text
    table = next(
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_dense_weights"
    )
    sources = [
        name
        for names in ast.literal_eval(table).values()
        for name in names
        if name.endswith(".weight")
    ]
    assert sources == [f"{name}.weight" for name in weights]
    assert ("_dense_weights_transposed = True" in text) == (model == "gpt2")


REFUSED = {
    "mixtral": ("already", False),
    "vit": ("no causal or masked language model", False),
    "gptj": ("does not record outputs", True),
    "biogpt": ("holds no FFN in a form", True),
    "modernbert": ("holds no FFN in a form", True),
    "apertus": ("made in several ways", True),
    "gemma3": ("several configurations", True),
    "layoutlm": ("its index", True),
    "esmc": ("EsmcLayer is not told its index", True),
    "hrm_text": ("converts the checkpoints of hrm_text", True),
}


@of_release
@pytest.mark.parametrize(
    ("model", "why", "placed"), [(m, *v) for m, v in REFUSED.items()], ids=REFUSED
)
def test_what_does_not_fit_is_said(env, model, why, placed):
    with pytest.raises(PatchgenError) as error:
        answer(env, model, ["moe"])
    (problem,) = problems_of(error.value)
    assert why in problem.what
    # What shows nowhere is not applicable.
    assert bool(problem.at.line) == placed


FFN = {
    "self.down(self.act(self.gate(x)) * self.up(x))": "",
    "self.drop(self.down(self.act(self.gate(x)) * self.up(x)))": "",
    "self.down(F.silu(self.gate(x)) * self.up(x))": "no activation that LlamaMLP holds",
    "self.down(self.drop(self.act(self.gate(x)) * self.up(x)))": "holds no FFN",
    "self.down(self.act(self.gate(x)) * self.up(x) * self.scale)": "holds no FFN",
    "self.down(self.act(self.gate(x).float()) * self.up(x))": "holds no FFN",
    "self.down(F.gelu(self.gate(x), approximate='tanh') * self.up(x))": "holds no FFN",
    "self.down(self.act(self.gate(x)) * self.up(x)) + x": "holds no FFN",
}


@of_release
@pytest.mark.parametrize(("returned", "why"), FFN.items(), ids=list(FFN))
def test_what_experts_do_not_compute_is_not_lost(env, returned, why):
    """A dropout, a number or a cast between the products of an FFN is a reason to refuse it."""
    llama = open_module(env, "transformers.models.llama.modeling_llama")
    text = llama.source.text
    mlp = ast.get_source_segment(text, llama.classes["LlamaMLP"].node)
    own = (
        "class LlamaMLP(nn.Module):\n    def __init__(self, config):\n"
        "        self.gate = nn.Linear(config.hidden_size, 8)\n"
        "        self.up = nn.Linear(config.hidden_size, 8)\n"
        "        self.down = nn.Linear(8, config.hidden_size)\n"
        "        self.act = ACT2FN[config.hidden_act]\n"
        "        self.drop = nn.Dropout(0.1)\n        self.scale = config.scale\n"
        f"    def forward(self, x):\n        return {returned}\n"
    )
    found = moe(
        make_module(llama.name, make_source(text.replace(mlp, own), llama.source.path, llama.name))
    )
    whys = [one.what for one in found.missing]
    assert any(why in one for one in whys) if why else not whys, whys
