"""`patchgen new --with bidirectional`: which masks and attentions look both ways, and what looks back all the same."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import every_module, find_module, open_module
from patchgen.author.declare.bidirectional import bidirectional
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

# What is declared: by mixin, by an attribute, by edits of the methods that make masks.
WRITTEN = {
    "llama": {"LlamaAttention": "LooksBothWays", "LlamaModel": "bidirectional_mask"},
    "mistral": {"MistralAttention": "LooksBothWays", "MistralModel": "_sliding_window_mask"},
    "qwen3_moe": {"Qwen3MoeAttention": "LooksBothWays", "Qwen3MoeModel": "bidirectional_mask"},
    "gpt2": {"GPT2Attention": "LooksBothWays", "GPT2Model": "bidirectional_mask"},
}
REFUSED = {
    "vit": "no causal mask is made here",
    "bart": "the decoder of an encoder",
    "bamba": "from left to right, by `",
    "qwen3_next": "from left to right, by `",
    "bloom": "grows with the place of a key",
    "gpt_neo": "a mask that looks back is made by `tril`",
    "llama4": "cuts the text into pieces",
    "gemma3": "a causal mask is made in a function",
}


def declared(model):
    env = make_environment(Path.cwd())
    return bidirectional(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "classes"), WRITTEN.items(), ids=WRITTEN)
def test_masks_and_attentions_look_both_ways(model, classes):
    found = declared(model)
    assert found.fits and not found.missing
    texts = {one.name: "".join((*one.mixins, *one.members)) for one in found.declared}
    assert texts.keys() == classes.keys()
    assert all(words in texts[name] for name, words in classes.items())


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_what_looks_back_all_the_same_is_refused(model, why):
    (missing,) = declared(model).missing
    assert missing.fatal and why in missing.what


@pytest.mark.parametrize("model", ["bert", "roberta", "electra"])
def test_an_encoder_looks_both_ways_already(model):
    assert "already, unless `config.is_decoder`" in declared(model).redundant


@pytest.mark.slow
def test_reach():
    env = make_environment(Path.cwd())
    found = [bidirectional(open_module(env, name)) for name in every_module(env)]
    assert sum(one.fits and not one.redundant for one in found) >= 128
    assert sum(bool(one.redundant) for one in found) == 28
