"""`patchgen new --with logprobs`: what a head does to its logits becomes a method for a chunk of tokens."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, open_module
from patchgen.author.declare.logprobs import logprobs
from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import flatten_draft
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

STEPS = {
    "llama": "logits = self.lm_head(hidden_states)\n    return logits",
    "cohere": "logits = logits * self.logit_scale\n    return logits",
    "gemma2": "logits = torch.tanh(logits)",
    "qwen2_vl": "logits = self.lm_head(hidden_states)\n    return logits",
}
# Where the head calls its states something else.
CONVERTED = ("roberta", "bert")
REFUSED = {
    "vit": "no head over words takes a loss here",
    "chameleon": "its logits depend on `image_tokens` too",
    "t5": "not made between its states",
    "esm": "EsmForMaskedLM: its logits are not made between its states",
}


def declared(model):
    env = make_environment(Path.cwd())
    return logprobs(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "steps"), STEPS.items(), ids=STEPS)
def test_what_a_head_does_to_its_logits_is_a_method(model, steps):
    found = declared(model)
    assert found.fits and not found.missing
    (head,) = found.declared
    change, method = head.members
    assert "return log_probs_output(self, hidden_states" in change
    assert method.startswith("def logits_of(self, hidden_states):") and steps in method


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_logits_of_something_else_are_refused(model, why):
    assert not declared(model).fits
    assert any(why in missing.what for missing in declared(model).missing)


@pytest.mark.parametrize("model", CONVERTED)
def test_a_method_reads_its_own_states(model, tmp_path):
    draft = answer(make_environment(Path.cwd()), model, ["logprobs"]).draft
    flatten_draft(draft, tmp_path)
