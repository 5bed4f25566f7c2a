"""`patchgen new --with flash`: the gallery, and structures that need their padding."""

import ast
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, make_module, open_module
from patchgen.author.declare.flash import flash
from patchgen.author.declare.request import answer
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
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: [ast.unparse(base) for base in node.bases] for node in nodes}


@pytest.mark.parametrize("name", ["bert_padding_free", "roberta_padding_free", "llama_packed"])
def test_it_is_what_the_gallery_has_by_hand(env, name):
    model = name.partition("_")[0]
    by_hand = Path(f"modular/{model}/modular_{name}.py").read_text(encoding="utf-8")
    assert classes(answer(env, model, ["flash"]).text) == classes(by_hand)


@pytest.mark.parametrize("model", ["llama", "qwen3"])
def test_fast_is_what_the_gallery_has(env, model):
    by_hand = Path(f"modular/{model}/modular_{model}_fast.py").read_text(encoding="utf-8")
    assert classes(answer(env, model, ["fast"]).text) == classes(by_hand)


def test_heads_that_read_padding_say_so(env):
    found = {
        one.name: one.mixins
        for one in flash(open_module(env, find_module(env, "electra"))).declared
    }
    assert found["ElectraForQuestionAnswering"] == ("KeepsPadding",)
    # Which position its summary takes is an option.
    assert found["ElectraForMultipleChoice"] == ("KeepsPadding",)
    # Rows that begin with padding are computed with it: the first position is a real token.
    alone = {
        "ElectraForSequenceClassification",
        "ElectraForMaskedLM",
        "ElectraForTokenClassification",
    }
    assert not alone & found.keys()


@pytest.mark.parametrize("model", ["ernie", "gemma2", "mistral", "qwen3"])
def test_more_models_are_taken(env, model):
    assert flash(open_module(env, find_module(env, model))).declared


@pytest.mark.parametrize("model", ["nemotron", "stablelm"])
def test_layers_hand_lengths_on_to_their_attention(env, model):
    (layer, *_) = flash(open_module(env, find_module(env, model))).declared
    assert layer.name.endswith("DecoderLayer") and "**kwargs" in layer.members[0]


REFUSED = {
    "granite_swa": "GraniteSWAAttention has attention sinks",
    "bridgetower": "goes through the parts of BridgeTowerTextModel itself",
    "mixtral": "the losses of its routers read the rows of a batch",
    "gpt2": "not one base model of BERT's or Llama's structure",
    "molmo2": "the model around Molmo2TextModel makes the mask of its layers",
    "moonshine": "not one base model of BERT's or Llama's structure",
    "mpnet": "no attention calls transformers' interface",
    "xmod": "`hidden_states[lang_mask]` of XmodOutput may look at other tokens",
}


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_reasons(env, model, why):
    (missing,) = flash(open_module(env, find_module(env, model))).missing
    assert missing.fatal and why in missing.what


def changed(env, model, old, new):
    """What is declared of `model` with another text in its file."""
    module = open_module(env, find_module(env, model))
    text = module.source.text
    assert old in text
    return flash(
        make_module(
            module.name, make_source(text.replace(old, new), module.source.path, module.name)
        )
    )


MLP = "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
POOLED = "first_token_tensor = hidden_states[:, 0]"
TRAPS = {
    "a layer that looks back": (
        "llama",
        MLP,
        MLP.replace("(x))", "(x.roll(1, 1)))"),
        "may look at other tokens",
    ),
    "a mean over tokens": (
        "llama",
        MLP,
        MLP.replace("(x))", "(x - x.mean(1)))"),
        "may look at other tokens",
    ),
    "a pooler of the last token": (
        "bert",
        POOLED,
        POOLED.replace("0]", "-1]"),
        "pools more than the first token",
    ),
}


@pytest.mark.parametrize(("model", "old", "new", "why"), TRAPS.values(), ids=TRAPS)
def test_traps_are_reasons(env, model, old, new, why):
    found = changed(env, model, old, new)
    assert not found.declared
    (missing,) = found.missing
    assert why in missing.what and missing.at.line and missing.hint
