"""Families whose sizes depend on each other can be built tiny, with inputs that fit them."""

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.facts.families import FAMILIES
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models.build import build_parent
from patchgen.verifying.parts.part_check import Scenario

CLASSES = {
    "autoformer": "AutoformerForPrediction",
    "bit": "BitModel",
    "bros": "BrosForTokenClassification",
    "codegen": "CodeGenForCausalLM",
    "convnext": "ConvNextForImageClassification",
    "dac": "DacModel",
    "depth_anything": "DepthAnythingForDepthEstimation",
    "dpt": "DPTForDepthEstimation",
    "efficientnet": "EfficientNetModel",
    "glmasr": "GlmAsrEncoder",
    "got_ocr2": "GotOcr2ForConditionalGeneration",
    "groupvit": "GroupViTVisionModel",
    "idefics": "IdeficsForVisionText2Text",
    "kimi_k25": "Kimi_K25VisionModel",
    "kosmos2": "Kosmos2ForConditionalGeneration",
    "layoutlmv3": "LayoutLMv3ForQuestionAnswering",
    "levit": "LevitForImageClassification",
    "lxmert": "LxmertForPreTraining",
    "mllama": "MllamaForConditionalGeneration",
    "perceiver": "PerceiverForMaskedLM",
    "poolformer": "PoolFormerModel",
    "pvt": "PvtForImageClassification",
    "qwen3_asr": "Qwen3ASREncoder",
    "qwen3_vl": "Qwen3VLVisionModel",
    "sam": "SamModel",
    "sam2": "Sam2Model",
    "segformer": "SegformerForSemanticSegmentation",
    "seggpt": "SegGptModel",
    "siglip2": "Siglip2Model",
    "speecht5": "SpeechT5ForSpeechToText",
    "squeezebert": "SqueezeBertForMaskedLM",
    "superglue": "SuperGlueForKeypointMatching",
    "swinv2": "Swinv2Model",
    "timesfm": "TimesFmModelForPrediction",
    "tvp": "TvpForVideoGrounding",
    "video_llama_3": "VideoLlama3VisionModel",
    "videomae": "VideoMAEForPreTraining",
    "vilt": "ViltForMaskedLM",
    "vivit": "VivitForVideoClassification",
    "voxtral": "VoxtralEncoder",
}


@pytest.mark.parametrize("model", CLASSES)
def test_a_class_of_the_family_runs_on_its_inputs(model):
    made = getattr(
        importlib.import_module(f"transformers.models.{model}.modeling_{model}"), CLASSES[model]
    )
    config = tiny_config(made.config_class)
    given = make_inputs(made, config, Scenario()).to("cpu", torch.float32).given
    with torch.no_grad():
        out = build_parent(made, config, torch.float32)(**given)
    assert all(torch.isfinite(one).all() for one in out.values() if isinstance(one, torch.Tensor))


# Lists of widths, one for each stage, in the order of the stages.
STAGED = {
    "convnext": [8, 12, 24, 48],
    "segformer": [4, 8, 20, 32],
    "textnet": [4, 4, 8, 16, 32],
}


@pytest.mark.parametrize("model_type", STAGED)
def test_stages_stay_as_many_and_become_narrow(model_type):
    config = tiny_config(model_type)
    assert config.hidden_sizes == STAGED[model_type]
    assert max(config.depths) == 2


def test_widths_that_each_block_names_stay_as_they_are():
    config = tiny_config("pp_lcnet_v4")
    assert config.stage_out_channels[-1] == config.block_configs[-1][-1][2]


def test_layers_whose_states_are_read_are_there():
    config = tiny_config("dpt")
    assert config.backbone_out_indices == [0, 1, 2, 3] and config.num_hidden_layers == 4


def test_every_family_is_one_of_transformers():
    for model_type in FAMILIES:
        assert tiny_config(model_type).model_type == model_type
