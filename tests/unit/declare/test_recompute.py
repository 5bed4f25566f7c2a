"""Which arguments of a layer are a cache that recomputing would fill twice."""

import ast
from dataclasses import replace

import pytest

from patchgen.author.anatomy.module import make_module
from patchgen.author.declare.checkpoint import layer_calls
from patchgen.syntax.text import make_source

MODEL = """
class Layer(nn.Module):
    def forward(self, states, past_key_values=None, cache=None, layer_past=None):
        return states


class Model(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([Layer()])

    def forward(self, states, first, second):
        for layer in self.layers:
            states = layer(states, {arguments})
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
    ("removed", "arguments", "caches"),
    [
        ("past_key_values", "past_key_values=first", []),
        ("past_key_values", "cache=first", ["first"]),
        ("cache", "cache=first", []),  # since transformers 5.24
        ("cache", "past_key_values=first", ["first"]),
        ("cache", "cache=first, layer_past=second", ["second"]),
        ("cache", "first", ["first"]),  # by place: no keyword that could be removed
        ("cache", "cache=None", []),
    ],
)
def test_a_cache_that_transformers_does_not_remove_is_one(tmp_path, removed, arguments, caches):
    folder = tmp_path / "models" / "x"
    folder.mkdir(parents=True)
    (tmp_path / "modeling_layers.py").write_text(LAYERS.format(name=removed), encoding="utf-8")
    source = make_source(MODEL.format(arguments=arguments), "modeling_x.py", "modeling_x")
    module = replace(make_module("modeling_x", source), folder=folder)
    [call] = layer_calls(module, [module.classes["Layer"]])
    assert [ast.unparse(one) for one in call.caches()] == caches
