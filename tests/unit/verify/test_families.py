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
    "bros": "BrosForTokenClassification",
    "depth_anything": "DepthAnythingForDepthEstimation",
    "codegen": "CodeGenForCausalLM",
    "glmasr": "GlmAsrEncoder",
    "got_ocr2": "GotOcr2ForConditionalGeneration",
    "kimi_k25": "Kimi_K25VisionModel",
    "layoutlmv3": "LayoutLMv3ForQuestionAnswering",
    "levit": "LevitForImageClassification",
    "lxmert": "LxmertForPreTraining",
    "perceiver": "PerceiverForMaskedLM",
    "pvt": "PvtForImageClassification",
    "qwen3_asr": "Qwen3ASREncoder",
    "qwen3_vl": "Qwen3VLVisionModel",
    "sam": "SamModel",
    "sam2": "Sam2Model",
    "speecht5": "SpeechT5ForSpeechToText",
    "squeezebert": "SqueezeBertForMaskedLM",
    "superglue": "SuperGlueForKeypointMatching",
    "timesfm": "TimesFmModelForPrediction",
    "tvp": "TvpForVideoGrounding",
    "video_llama_3": "VideoLlama3VisionModel",
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


def test_every_family_is_one_of_transformers():
    for model_type in FAMILIES:
        assert tiny_config(model_type).model_type == model_type
