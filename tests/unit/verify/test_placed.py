"""Images, videos and sounds in a text: a placeholder for each feature, and what only they show."""

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import BESIDE, LARGER, CannotBuild
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models.build import build_parent
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.part_check import Scenario, replaced


def module_of(model):
    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


def observed(module, name, scenario):
    model_class = getattr(module, name)
    config = tiny_config(model_class.config_class)
    inputs = make_inputs(model_class, config, scenario).to("cpu", torch.float32)
    return inputs, observe_step(build_parent(model_class, config, torch.float32), inputs, scenario)


# By how images reach the model: squares, patches with a grid, tiles, several to a row, positions.
FORMS = [
    ("llava", "LlavaForConditionalGeneration", "images"),
    ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "images"),
    ("qwen3_vl", "Qwen3VLForConditionalGeneration", "videos"),
    ("llava_next", "LlavaNextForConditionalGeneration", "images"),
    ("idefics3", "Idefics3ForConditionalGeneration", "images"),
    ("lfm2_vl", "Lfm2VlForConditionalGeneration", "images"),
    ("glmasr", "GlmAsrForConditionalGeneration", "sounds"),
]


@pytest.mark.parametrize(("model", "head", "kind"), FORMS, ids=[each[0] for each in FORMS])
def test_each_feature_has_a_placeholder(model, head, kind):
    inputs, found = observed(module_of(model), head, Scenario("right", train=True, ways=(kind,)))
    assert any(name.startswith(("pixel_values", "input_features")) for name in inputs.given)
    assert all(tensor.isfinite().all() for tensor in found.values())
    towers = [n for n in found if n.startswith("gradient of model.") and "language_model" not in n]
    assert towers and any(found[name].any() for name in towers)


def test_a_model_of_text_has_no_place_for_an_image():
    with pytest.raises(CannotBuild, match="puts no image into its text"):
        observed(module_of("llama"), "LlamaForCausalLM", Scenario(ways=("images",)))


# By the mask: which outputs it changes.
MASKS = [
    ("dinov2", "Dinov2Model", "bool_masked_pos", "last_hidden_state"),
    ("bart", "BartForConditionalGeneration", "decoder_attention_mask", "loss"),
    ("vilt", "ViltModel", "pixel_mask", "pooler_output"),
]


@pytest.mark.parametrize(("model", "head", "mask", "changed"), MASKS, ids=[m[2] for m in MASKS])
def test_other_masks_than_that_of_the_text_are_given(model, head, mask, changed):
    (without, plain), (inputs, masked) = (
        observed(module_of(model), head, Scenario(ways=ways)) for ways in ((), (BESIDE,))
    )
    assert mask not in without.given and not inputs.given[mask].bool().all()
    assert not torch.allclose(plain[changed], masked[changed])


def test_positions_of_a_larger_image_are_stretched():
    inputs, found = observed(module_of("vit"), "ViTModel", Scenario(ways=(LARGER,)))
    _, plain = observed(module_of("vit"), "ViTModel", Scenario())
    assert inputs.options["interpolate_pos_encoding"]
    name = "last_hidden_state"
    assert found[name].shape[1] == 2 * plain[name].shape[1] - 1  # of the class there is one


def no_image_sees_ahead(get_ids):
    return lambda token_type_ids, device=None: torch.full_like(token_type_ids, -1)


def without_positions(compute):
    return lambda *args, **kwargs: None


def of_image_before(features):
    def get(self, pixel_values, *args, **kwargs):
        return features(self, pixel_values.roll(1, 0), *args, **kwargs)

    return get


# Bugs that text alone cannot show: by the module, the owner in it, and what is replaced.
BUGS = [
    (
        "gemma3",
        "Gemma3ForConditionalGeneration",
        "",
        "get_block_sequence_ids_for_mask",
        no_image_sees_ahead,
    ),
    (
        "qwen2_5_vl",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2_5_VLModel",
        "compute_3d_position_ids",
        without_positions,
    ),
    ("llava", "LlavaForConditionalGeneration", "LlavaModel", "get_image_features", of_image_before),
]


@pytest.mark.parametrize(
    ("model", "head", "owner", "name", "bug"), BUGS, ids=[each[0] for each in BUGS]
)
def test_what_is_wrong_with_images_alone_is_seen(model, head, owner, name, bug):
    module = module_of(model)
    place = getattr(module, owner) if owner else module
    for ways, is_seen in (((), False), (("images",), True)):
        scenario = Scenario("right", ways=ways)
        _, right = observed(module, head, scenario)
        with replaced(place, name, bug):
            _, wrong = observed(module, head, scenario)
        same = all(torch.allclose(right[each], wrong[each], atol=1e-5) for each in right)
        assert same != is_seen, ways


def test_experts_come_in_groups_behind_a_dense_layer():
    module = module_of("deepseek_v3")
    config = tiny_config("deepseek_v3")
    kinds = [type(layer.mlp).__name__ for layer in module.DeepseekV3Model(config).layers]
    assert kinds == ["DeepseekV3MLP", "DeepseekV3MoE", "DeepseekV3MoE"]
    inputs = make_inputs(module.DeepseekV3Model, config, Scenario()).to("cpu", torch.float32)
    found = []
    for groups in (config.topk_group, config.n_group):  # of all groups each expert may be chosen
        config.topk_group = groups
        model = build_parent(module.DeepseekV3Model, config, torch.float32)
        found.append(observe_step(model, inputs, Scenario())["last_hidden_state"])
    assert not torch.allclose(*found)


def test_a_backbone_whose_stages_are_layers_gives_as_many_features():
    module = module_of("prompt_depth_anything")
    config = tiny_config("prompt_depth_anything")
    assert config.backbone_config.out_features == ["stage1", "stage2", "stage3", "stage4"]
    name = "PromptDepthAnythingForDepthEstimation"
    assert observed(module, name, Scenario())[1]["predicted_depth"].isfinite().all()
