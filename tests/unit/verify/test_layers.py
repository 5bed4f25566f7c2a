"""Tiny models have a layer of each kind, though a checkpoint has but one global layer in four or six."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import CONFIG_MAPPING

from patchgen.runtime.tiny import tiny_config

KINDS = [
    ("cohere2", "layer_types"),
    ("gemma3_text", "layer_types"),
    ("jamba", "layer_types"),
    ("kimi_linear", "layer_types"),
    ("llama4_text", "layer_types"),
    ("qwen3_next", "layer_types"),
    ("smollm3", "no_rope_layers"),
    ("step3p5", "mlp_layer_types"),
]


@pytest.mark.parametrize(("model", "name"), KINDS, ids=[each[0] for each in KINDS])
def test_each_kind_of_layer_is_there(model, name):
    tiny, default = tiny_config(model), CONFIG_MAPPING[model]()
    assert {*getattr(tiny, name)} == {*getattr(default, name)}
    assert len(getattr(tiny, name)) == tiny.num_hidden_layers


def test_the_kinds_of_a_model_inside_another_one_are_there():
    assert {*tiny_config("ernie4_5_vl_moe").text_config.mlp_layer_types} == {"dense", "sparse"}
    assert {*tiny_config("gemma3").text_config.layer_types} == {
        "full_attention",
        "sliding_attention",
    }


def test_kinds_that_are_asked_for_stay():
    asked = ["sliding_attention"] * 3
    assert tiny_config("cohere2", layer_types=asked).layer_types == asked


def test_layers_that_are_named_by_their_places_are_there():
    """Else a tower has windows alone, and a text model no layer that looks at images."""
    assert tiny_config("qwen2_5_vl").vision_config.fullatt_block_indexes == [1]
    assert tiny_config("mllama").text_config.cross_attention_layers == [1]
    assert tiny_config("llama4").text_config.moe_layers == [1, 2]
    assert tiny_config("sam3_vit_model").global_attn_indexes == [1]
