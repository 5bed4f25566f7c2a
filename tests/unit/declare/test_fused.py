"""`patchgen new --with fused`: which linear layers become one, and which stay what they are."""

import ast
import re
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, make_module, open_module
from patchgen.author.declare.fused import fused
from patchgen.author.declare.request import answer
from patchgen.cli import main
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def classes(text):
    """Classes with their bases and members."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: ([ast.unparse(base) for base in node.bases], ast.unparse(node.body))
        for node in nodes
    }


GALLERY = {
    ("llama", "fused"): "llama_fused",
    ("qwen3", "fused"): "qwen3_fused",
    ("gpt2", "fused"): "gpt2_gelu",
}


@pytest.mark.parametrize(("asked", "name"), GALLERY.items(), ids=GALLERY.values())
def test_it_is_what_the_gallery_has_by_hand(env, asked, name):
    model, part = asked
    by_hand = Path(f"modular/{model}/modular_{name}.py").read_text(encoding="utf-8")
    assert classes(answer(env, model, [part]).text) == classes(by_hand)


def slow(model):
    return pytest.param(model, marks=pytest.mark.slow)


def changed(env, model, old, new):
    """What is declared of `model` with another text in its file."""
    module = open_module(env, find_module(env, model))
    text = module.source.text
    assert old in text
    return fused(
        make_module(
            module.name, make_source(text.replace(old, new), module.source.path, module.name)
        )
    )


def members(found, name):
    return "\n".join(member for one in found.declared if one.name == name for member in one.members)


def test_layers_by_other_names_are_one_by_edits(env):
    found = fused(open_module(env, find_module(env, "bert")))
    text = members(found, "BertSelfAttention")
    assert "query, key, value = self.query_key_value(hidden_states).chunk(3, dim=-1)" in text
    # Its queries are of other states than its keys and values.
    cross = members(found, "BertCrossAttention")
    assert (
        "key, value = self.key_value(encoder_hidden_states).chunk(2, dim=-1)" in cross
        and "query" not in cross
    )
    assert [one.mixins for one in found.declared if one.name == "BertPreTrainedModel"] == [
        ("FusedProjections",)
    ]


# A change of Llama's attention after which its keys are not fused with the rest.
PROJECT = "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
MAKE = "        self.o_proj = nn.Linear(\n"
KEPT = {
    "read by another method": (PROJECT, f"{PROJECT}        self.last = self.k_proj.weight\n"),
    "tied to another weight": (
        "class LlamaPreTrainedModel(PreTrainedModel):\n",
        "class LlamaPreTrainedModel(PreTrainedModel):\n"
        '    _tied_weights_keys = {"self_attn.k_proj.weight": "x"}\n',
    ),
}


@pytest.mark.parametrize(("old", "new"), KEPT.values(), ids=KEPT)
def test_a_layer_that_is_read_elsewhere_stays(env, old, new):
    found = changed(env, "llama", old, new)
    assert "LlamaAttention" not in [one.name for one in found.declared]
    assert any("LlamaAttention" in one.what and one.at.line and one.hint for one in found.missing)


def test_an_input_that_changes_in_between_is_another_one(env):
    found = changed(env, "llama", PROJECT, f"        hidden_states = hidden_states * 2\n{PROJECT}")
    text = members(found, "LlamaAttention")
    assert "k_proj, v_proj = " in text and "q_proj" not in text


IN_PLACE = ("key_states /= 2", "key_states[0] = 2", "key_states.div_(2)", "key_states[0] *= 2")


@pytest.mark.parametrize("change", IN_PLACE)
def test_what_is_changed_in_place_is_a_copy(env, change):
    """Autograd refuses to change one of several views."""
    found = changed(env, "llama", PROJECT, f"{PROJECT}        {change}\n")
    text = members(found, "LlamaAttention")
    assert re.findall(r"\w+\.clone\(\)", text) in (["k_proj.clone()"], ["key_states.clone()"])


def test_layers_with_different_biases_are_not_one(env):
    made = (
        "            config.hidden_size, config.num_key_value_heads * self.head_dim, "
        "bias=config.attention_bias\n"
    )
    found = changed(env, "llama", made, made.replace("config.attention_bias", "False"))
    assert "q_proj" not in members(found, "LlamaAttention")


def test_what_is_bound_between_two_layers_is_not_read_too_late(env):
    module = open_module(env, find_module(env, "bert"))
    made = "        self.key = nn.Linear(config.hidden_size, self.all_head_size)\n"
    text = module.source.text.replace(
        made, f"        self.all_head_size = 2 * self.all_head_size\n{made}"
    )
    found = fused(make_module(module.name, make_source(text, module.source.path, module.name)))
    assert not members(found, "BertSelfAttention")
    assert any(
        "`self.all_head_size` is bound between the layers" in one.what for one in found.missing
    )


def test_a_plan_with_a_style_of_its_own_is_not_kept(env):
    """Qwen2-MoE has experts beside a shared expert; transformers converts its checkpoints."""
    assert "(KnownConversions, WholeProjections, " in answer(env, "qwen2_moe", ["fused"]).text


# Paths such as `f"{stack}.layers.*.mlp.up_proj"`; several base models; several configurations.
@pytest.mark.parametrize("model", ["hrm_text", "t5gemma", "paddleocr_vl"])
def test_a_plan_that_is_not_written_out_is_made_by_the_mixin(env, model):
    text = answer(env, model, ["fused"]).text
    assert "SplitProjections, " in text and "_tp_plan" not in text


def test_a_plan_that_is_written_out_keeps_the_rules_of_other_layers(env):
    found = fused(open_module(env, find_module(env, "mixtral")))
    text = members(found, "MixtralPreTrainedModel")
    assert '"layers.*.mlp.experts.gate_up_proj": "packed_colwise",' in text
    assert '"layers.*.self_attn.o_proj": "rowwise_split_input",' in text
    assert "q_proj" not in text.replace("qkv_proj", "")


def test_one_product_is_redundant(env):
    found = answer(env, "phi3", ["fused"])
    assert not found.text and "by one product already" in found.left_out[0].redundant


REFUSED = {
    "deberta_v2": "`query_proj` of DisentangledSelfAttention is read here too",
    "whisper": "no two linear layers",
}


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_reasons(env, model, why):
    with pytest.raises(PatchgenError) as error:
        answer(env, model, ["fused"])
    problems = problems_of(error.value)
    assert {problem.code for problem in problems} == {"PG803"} and why in problems[0].what


# Layers made one behind the other, and not; two groups in a class.
@pytest.mark.parametrize("model", list(map(slow, ("bert", "swinv2", "lilt"))))
def test_what_is_written_converts(model, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.patchgen]\nsources = ["modular"]\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["new", model, "--with", "fused"]) == 0
    assert main(["convert", "-q", "--no-cache", "--jobs", "1"]) == 0
    assert main(["check", "-q", "--no-cache", "--jobs", "1"]) == 0
