"""`patchgen new --with checkpoint`: which classes are run again, and what is said where there are none."""

from pathlib import Path

import pytest

from patchgen.anatomy.module import open_module
from patchgen.declare.checkpoint import checkpoint
from patchgen.source.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(find_package() is None, reason="the cases are of another release of transformers")

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


def declared(model):
    env = make_environment(Path.cwd())
    return checkpoint(open_module(env, f"transformers.models.{model}.modeling_{model}"))


@pytest.mark.parametrize(("model", "layers"), CASES.items(), ids=CASES)
def test_layers_become_checkpointed_and_the_model_chooses_what_is_kept(model, layers):
    found = declared(model)
    assert not found.missing
    assert {one.name for one in found.declared if one.behind} == layers
    assert sum(one.mixins == ("Checkpointing",) for one in found.declared) == 1


@pytest.mark.parametrize("model", ["shieldgemma2", "slanet"], ids=["of another model", "no layer attends"])
def test_what_has_no_layers_says_so(model):
    (missing,) = declared(model).missing
    assert missing.fatal and "no list of layers" in missing.what
