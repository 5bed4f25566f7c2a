"""`patchgen new --with replay`: the calls of `topk` that choose experts, and the layers around them."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, open_module
from patchgen.author.declare.replay import replay
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

WRITTEN = {
    "qwen3_moe": "self.choose(router_probs, self.top_k, dim=-1)",
    "gpt_oss": "self.choose(router_logits, self.top_k, dim=-1)",
    "granitemoe": "self.choose(router_logits, self.top_k, dim=-1)",  # `router_logits.topk(...)`
    "deepseek_v3": "self.choose(scores_for_choice, k=self.top_k, dim=-1, sorted=False)[1]",
    "deepseek_v4": "self.choose(scores + self.e_score_correction_bias, self.top_k, dim=-1",
    "dbrx": "self.choose(router_logits, self.top_k, dim=-1)",
}
REFUSED = {
    "llama": "no router chooses experts here",
    "doge": "experts are chosen in several steps: self.num_keys of something",
    "jamba": "no layer is found that holds JambaTopKRouter",
    "deepseek_v2": "behind a mask of groups",
}


def declared(model):
    env = make_environment(Path.cwd())
    return replay(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "statement"), WRITTEN.items(), ids=WRITTEN)
def test_a_router_takes_what_it_is_given(model, statement):
    found = declared(model)
    assert not found.missing
    (router,) = [one for one in found.declared if "ReplayingRouter" in one.mixins]
    assert len(router.members) == 1 and statement in router.members[0]
    assert any("ReplayingLayer" in one.mixins for one in found.declared)
    assert any("RecordsRouting" in one.mixins for one in found.declared)


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_what_would_be_half_replayed_is_refused(model, why):
    (missing,) = declared(model).missing
    assert missing.fatal and why in missing.what
