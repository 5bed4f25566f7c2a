"""`patchgen new --with flex`: whether transformers has flex attention, and what to write by hand."""

from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, make_module, open_module
from patchgen.author.declare.grouped import flex
from patchgen.author.declare.request import answer
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


def test_is_redundant_where_transformers_has_it(env):
    llama = opened(env, "llama")
    assert "flex_attention" in flex(llama).redundant
    with pytest.raises(Refusals, match="transformers has it here"):
        answer(env, "llama", ["flex"], force=True)
    text = llama.source.text.replace("_supports_flex_attn = True", "_supports_flex_attn = False")
    other = flex(make_module(llama.name, make_source(text, llama.source.path, llama.name)))
    assert not other.redundant
    (why,) = other.missing
    assert why.fatal and "does not set _supports_flex_attn" in why.what


@pytest.mark.parametrize(
    ("model", "owner"), [("deberta_v2", "DisentangledSelfAttention"), ("mpnet", "MPNetSelf")]
)
def test_is_refused_with_the_place_and_an_example_by_hand(env, model, owner):
    (why,) = flex(opened(env, model)).missing
    assert why.fatal and owner in why.what and why.at.line > 100
    (example,) = [word for word in why.hint.split() if word.endswith(".py")]
    assert "_supports_flex_attn = True" in Path(example).read_text(encoding="utf-8")
