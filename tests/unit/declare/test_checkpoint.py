"""`patchgen new --with checkpoint`: which classes are recomputed, and the answer if none is."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import open_module
from patchgen.author.declare.checkpoint import checkpoint
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

FLAG = "supports_gradient_checkpointing = True"
CASES = {
    "mpnet": {"MPNetLayer"},
    "fsmt": {"EncoderLayer", "DecoderLayer"},  # the decoder's is given its cache as `layer_state`
    "xlm": {"MultiHeadAttention", "TransformerFFN"},  # in lists side by side
    "flaubert": {"MultiHeadAttention", "TransformerFFN"},
    # Layers that can be checkpointed already, made in ways that are not followed.
    "jamba": set(),
    "zamba": set(),
    "chameleon": set(),
}


EDITS = {
    "openai": ["outputs = (h, *attn_outputs[1:])"],  # a reentrant checkpoint follows no list
    "patchtst": ["encoder_layer(hidden_state, output_attentions=output_attentions)"],
    "fsmt": [
        "layer_state=None if decoder_layer.gradient_checkpointing and self.training "
        "else past_key_values"
    ],
    "mixtral": ["router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)"],
    "albert": [],
    "xlnet": [],
}
HAS_IT = ("llama", "bert", "deberta_v2", "t5")


def declared(model):
    env = make_environment(Path.cwd())
    return checkpoint(open_module(env, f"transformers.models.{model}.modeling_{model}"))


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


def test_only_routers_get_a_mixin():
    for model, mixins in (
        ("albert", set()),
        ("mixtral", {"ChooseOnce"}),
        ("jetmoe", {"ChooseOnce"}),
    ):
        assert {name for one in declared(model).declared for name in one.mixins} == mixins


def test_a_switch_of_old_is_taken_away():
    (says_so,) = [one for one in declared("patchtst").declared if FLAG in one.members]
    assert says_so.members[1].startswith("def _set_gradient_checkpointing(self):")


@pytest.mark.parametrize("model", HAS_IT)
def test_what_transformers_checkpoints_needs_no_variant(model):
    assert "keep_products" in declared(model).redundant


@pytest.mark.parametrize(
    "model", ["shieldgemma2", "slanet"], ids=["of another model", "no layer attends"]
)
def test_what_has_no_layers_says_so(model):
    (missing,) = declared(model).missing
    assert missing.fatal and "no list of layers" in missing.what
