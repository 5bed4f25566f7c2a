"""`patchgen new --with flex`: transformers' interface where flex attention computes all of the scores."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, make_module, open_module
from patchgen.author.declare.flex import flex
from patchgen.author.declare.request import answer
from patchgen.author.declare.sdpa import sdpa
from patchgen.syntax.errors import Refusals
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def opened(env, model):
    return open_module(env, find_module(env, model))


@pytest.mark.parametrize("model", ["mpnet", "megatron_bert"])
def test_is_the_interface_that_sdpa_writes(env, model):
    found = flex(opened(env, model))
    assert found.declared == sdpa(opened(env, model)).declared
    text = answer(env, model, ["flex"]).text
    assert "_supports_flex_attn = True" in text
    assert "ALL_ATTENTION_FUNCTIONS.get_interface(" in text
    # Beside sdpa it adds nothing but what its docstring says.
    both = answer(env, model, ["sdpa", "flex"]).text
    assert both[both.index("class ") :] == text[text.index("class ") :]


def test_says_whether_a_bias_is_added(env):
    assert "a bias is added" in flex(opened(env, "mpnet")).says
    assert "a bias is added" not in flex(opened(env, "megatron_bert")).says


def test_is_redundant_where_transformers_has_it(env):
    llama = opened(env, "llama")
    assert "flex_attention" in flex(llama).redundant
    with pytest.raises(Refusals, match="transformers has flex attention here"):
        answer(env, "llama", ["flex"], force=True)
    text = llama.source.text.replace("_supports_flex_attn = True", "_supports_flex_attn = False")
    other = flex(make_module(llama.name, make_source(text, llama.source.path, llama.name)))
    assert not other.redundant
    (why,) = other.missing
    assert why.fatal and "does not set _supports_flex_attn" in why.what


def test_is_refused_with_the_place_where_the_interface_does_not_fit(env):
    (why,) = flex(opened(env, "deberta_v2")).missing
    assert why.fatal and "DisentangledSelfAttention" in why.what
    assert why.at.line > 100
