"""Calls of layers that a recompute would get wrong: caches, and states by keyword."""

from dataclasses import replace

import pytest

from patchgen.author.anatomy.module import make_module
from patchgen.author.declare.checkpoint import BY_KEYWORD, FILLED_TWICE, checkpoint
from patchgen.syntax.text import make_source

MODEL = """
class Attention(nn.Module):
    pass


class Layer(nn.Module):
    def __init__(self):
        self.attention = Attention()

    def forward(self, states, past_key_values=None, cache=None, layer_past=None):
        return states


class Model(PreTrainedModel):
    def __init__(self):
        self.layers = nn.ModuleList([Layer()])

    def forward(self, states, first, second):
        for layer in self.layers:
            states = layer({arguments})
        return states
"""
LAYERS = """
class GradientCheckpointingLayer(nn.Module):
    def __call__(self, *args, **kwargs):
        if "use_cache" in kwargs:
            kwargs["use_cache"] = False
        if kwargs.get("{name}") is not None:
            kwargs["{name}"] = None
"""


@pytest.mark.parametrize(
    ("removed", "arguments", "why"),
    [
        ("past_key_values", "states, past_key_values=first", None),
        ("past_key_values", "states, cache=first", FILLED_TWICE),
        ("cache", "states, cache=first", None),  # since transformers 5.24
        ("cache", "states, past_key_values=first", FILLED_TWICE),
        ("cache", "states, cache=first, layer_past=second", FILLED_TWICE),
        ("cache", "states, first", FILLED_TWICE),  # by place: no keyword that could be removed
        ("cache", "states, cache=None", None),
        ("cache", "states=states", BY_KEYWORD),
    ],
)
def test_what_a_recompute_would_get_wrong_is_refused_with_the_place(
    tmp_path, removed, arguments, why
):
    folder = tmp_path / "models" / "x"
    folder.mkdir(parents=True)
    (tmp_path / "modeling_layers.py").write_text(LAYERS.format(name=removed), encoding="utf-8")
    source = make_source(MODEL.format(arguments=arguments), "modeling_x.py", "modeling_x")
    found = checkpoint(replace(make_module("modeling_x", source), folder=folder))
    assert [one.what for one in found.missing] == ([why.format(what="layer")] if why else [])
    assert all(one.fatal and one.hint and one.at.line for one in found.missing)
    assert bool(found.declared) is not bool(why)
