"""Masks of attentions, and tables of classes, in small modules."""

import textwrap

import pytest

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.module import make_module
from patchgen.syntax.text import make_source


def module(text):
    return make_module(
        "transformers.models.toy.modeling_toy",
        make_source(textwrap.dedent(text), "modeling_toy.py"),
    )


MODEL = """
from ...masking_utils import create_causal_mask
{outside}

class Attention(nn.Module):
    def __init__(self, config):
        self.config = config

    def forward(self, q, k, v, mask=None):
        scores = torch.matmul(q, k.transpose(-1, -2))
        if mask is not None:
            {hide}
        return torch.matmul(scores.softmax(dim=-1), v)

class Layer(nn.Module):
    def __init__(self, config):
        self.attention = Attention(config)

    def forward(self, states, mask):
        {read}
        return self.attention(states, states, states, mask)

class Model(PreTrainedModel):
    def __init__(self, config):
        self.layer = Layer(config)

    def forward(self, states, attention_mask=None):
        attention_mask = create_causal_mask(
            config=self.config, inputs_embeds=states, attention_mask=attention_mask,
            past_key_values=None,
        )
        return self.layer(states, attention_mask)
"""
ADDED = "scores = scores + mask"
TOUCHED = "seen = 1.0 - mask"
MAKER = "def masks(states):\n    return create_causal_mask(states)"


@pytest.mark.parametrize(
    ("outside", "read", "whole", "why"),
    [
        pytest.param("", "pass", False, [], id="only the attention reads it"),
        pytest.param(
            "", TOUCHED, False, ["`1.0 - mask` computes with a mask"], id="another reader"
        ),
        pytest.param("", TOUCHED, True, [], id="another reader of the mask of eager"),
        pytest.param(
            MAKER,
            "pass",
            True,
            ["`create_causal_mask` is called in a function"],
            id="out of reach of edits",
        ),
    ],
)
def test_who_else_reads_a_mask(outside, read, whole, why):
    found = Attentions(
        module(MODEL.format(outside=outside, hide=ADDED, read=read)), whole_masks=whole
    )
    reasons = [what for _, what in found.reasons]
    assert len(reasons) == len(why) and all(
        part in what for part, what in zip(why, reasons, strict=True)
    ), reasons
    (chain,) = found.chains
    (term,) = chain.scores.terms
    assert found.follows(term.value) is not whole


TABLE = """
class Eager(nn.Module):
    pass

class Sdpa(nn.Module):
    pass

CLASSES = {table}

class Layer(nn.Module):
    def __init__(self, config):
        self.attention = CLASSES[config._attn_implementation](config)
"""


@pytest.mark.parametrize("table", ['{"flash_attention_2": Sdpa}', '{"eager": Eager, "sdpa": Sdpa}'])
def test_a_table_with_a_class_for_sdpa_or_none_for_eager_is_refused(table):
    found = Attentions(module(TABLE.replace("{table}", table)))
    assert [what for _, what in found.reasons] == [
        "`CLASSES` has classes of attention by implementation"
    ]
    for other in ('{"relu": Eager}', '{"eager": Eager}'):
        assert not [*Attentions(module(TABLE.replace("{table}", other))).reasons]


def test_a_name_that_is_made_of_itself_ends():
    """As PaliGemma's; what it holds was read for ever."""
    toy = module(
        """
        class Layer(nn.Module):
            def __init__(self, config):
                layers = [Norm()]
                layers = [layers, Gate()] if config.gated else layers
                layers = (layers, Block())
                self.layers = nn.ModuleList(layers)
        """
    )
    assert toy.classes["Layer"].held("layers") == ("Norm", "Gate", "Block")
