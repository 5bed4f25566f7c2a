"""`patchgen new --with packed`: the calls of layers that read a text from left to right."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, open_module
from patchgen.author.declare.packed import packed
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

WRITTEN = {
    # Its layer hands on no further arguments.
    "mamba": "run_texts_apart(self.mixer, hidden_states, cache_params=cache_params, "
    "attention_mask=attention_mask, **kwargs)",
    "lfm2": "run_texts_apart(self.conv, hidden_states=self.operator_norm(hidden_states)",
    # An attention has the same name, and gives a tuple.
    "kimi_linear": "run_texts_apart(self.self_attn, hidden_states=hidden_states",
    # Layers by a table, one of them a mixture.
    "nemotron_h": "run_texts_apart(self.mixer, hidden_states",
    # Four short convolutions, of keys and values and behind two layers.
    "inkling": "run_texts_apart(self.k_sconv, self.k_proj(hidden_states)",
}
REFUSED = {
    "llama": "no layer here reads a text from left to right by a state",
    "inkling2": "self.k_sconv is given more than one value of each token",
    "recurrent_gemma": "RecurrentGemmaRglru is not called with a mask and a cache",
}


def declared(model):
    env = make_environment(Path.cwd())
    return packed(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "statement"), WRITTEN.items(), ids=WRITTEN)
def test_a_recurrent_layer_runs_texts_apart(model, statement):
    contribution = declared(model)
    assert not contribution.missing
    edits = [text for each in contribution.declared for text in each.members]
    assert any(statement in text for text in edits)
    mixins = [name for each in contribution.declared for name in each.mixins]
    assert len(mixins) == 1 and mixins[0].startswith("TellsTexts")


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_a_model_that_would_mix_texts_elsewhere_is_refused(model, why):
    (missing,) = declared(model).missing
    assert missing.fatal and why in missing.what
