"""A variant that was not loaded begins with weights drawn as the parent's are."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.checks.context import Case, CheckContext
from patchgen.verifying.checks.running import check_initialization
from patchgen.verifying.models.pair import Pair
from tests.gallery import BY_NAME


def judged(pair):
    return check_initialization(CheckContext(pair, Case("begins", "fresh", pair.head)))


@pytest.fixture(scope="module")
def pair():
    variant = BY_NAME["dbrx_grouped"]
    return Pair(variant, variant.heads[0])


def test_weights_in_another_layout_are_drawn_as_the_parents(pair):
    assert judged(pair).status == "PASS"


def test_weights_that_nobody_draws_are_reported(pair, monkeypatch):
    base = pair.module.DbrxPreTrainedModel
    own = base._init_weights

    def all_but_the_experts(self, module):
        if type(module).__name__ != "DbrxExperts":
            own(self, module)

    monkeypatch.setattr(base, "_init_weights", all_but_the_experts)
    verdict = judged(pair)
    assert verdict.status == "FAIL"
    assert "gate_up_proj" in verdict.note


def test_code_that_transformers_takes_for_a_users_is_reported(pair, monkeypatch):
    monkeypatch.setattr(pair.variant_class, "is_custom_code", classmethod(lambda cls: True))
    assert judged(pair).status == "FAIL"
