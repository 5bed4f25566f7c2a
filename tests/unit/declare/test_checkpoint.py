"""`patchgen new --with checkpoint`: which classes are recomputed, and the answer if none is."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, open_module
from patchgen.author.declare.checkpoint import checkpoint
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

FLAG = "supports_gradient_checkpointing = True"
CASES = {
    "mpnet": {"MPNetLayer"},
    # Layers that can be checkpointed already, made in ways that are not followed.
    "jamba": set(),
    "zamba": set(),
    "chameleon": set(),
}


EDITS = {
    "mixtral": ["router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)"],
    # In place this would change a leaf: PEFT makes embeddings require a gradient.
    "blip_text": ["embeddings = embeddings + position_embeddings"],
    "albert": [],
    "xlnet": [],
}
REFUSED = {
    "openai": "is no tuple: a reentrant checkpoint does not look into it",  # a list
    "squeezebert": "is no tuple: a reentrant checkpoint does not look into it",  # a dictionary
    "patchtst": "is given its states by keyword",
    "fsmt": "`decoder_layer` is given a cache",
}
HAS_IT = ("llama", "bert", "deberta_v2", "t5", "slanet")


def declared(model):
    env = make_environment(Path.cwd())
    return checkpoint(open_module(env, find_module(env, model)))


@pytest.mark.parametrize(("model", "layers"), CASES.items(), ids=CASES)
def test_layers_become_checkpointed_and_the_model_says_so(model, layers):
    found = declared(model)
    assert not found.missing
    assert {one.name for one in found.declared if one.behind} == layers
    says_so = [one for one in found.declared if FLAG in one.members]
    assert len(says_so) == (0 if model in ("zamba", "chameleon", "jamba") else 1)


@pytest.mark.parametrize(("model", "statements"), EDITS.items(), ids=EDITS)
def test_an_edit_stands_where_the_code_of_the_parent_needs_one(model, statements):
    edits = [
        text for one in declared(model).declared for text in one.members if text.startswith("@edit")
    ]
    assert len(edits) == len(statements)
    assert all(statement in text for statement, text in zip(statements, edits, strict=True))


@pytest.mark.parametrize(("model", "why"), REFUSED.items(), ids=REFUSED)
def test_what_a_recompute_would_get_wrong_is_refused(model, why):
    missing = declared(model).missing
    assert any(why in one.what for one in missing)
    assert all(one.fatal and one.hint and one.at.line for one in missing)


def test_a_switch_of_old_is_taken_away():
    (says_so,) = [one for one in declared("omdet_turbo").declared if FLAG in one.members]
    assert says_so.members[1].startswith("def _set_gradient_checkpointing(self):")


def test_what_is_made_of_another_model_has_no_layers():
    (missing,) = declared("shieldgemma2").missing
    assert missing.fatal and "no list of layers" in missing.what
