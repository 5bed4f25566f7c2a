"""A variant that changes nothing never fails: `python -m tests.population.neutral` counts all models."""

from itertools import accumulate

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import cost_of, select_cases
from patchgen.verifying.configs.read import changed_heads, find_guards, find_head_of
from patchgen.verifying.inputs.arguments import PLACED
from patchgen.verifying.variants import Variant
from tests.population import neutral
from tests.population.models import find_models

BY_NAME = {model.name: model for model in find_models()}


def variant_of(name: str, folder) -> Variant:
    return neutral.make_variant(BY_NAME[name], folder)


GUARDS = [
    ("wav2vec2", "Wav2Vec2LayerNormConvLayer", "feat_extract_norm='layer'"),
    ("wav2vec2", "Wav2Vec2EncoderStableLayerNorm", "do_stable_layer_norm=True"),
    ("deepseek_v3", "DeepseekV3MoE", "first_k_dense_replace=0"),
    ("roberta", "RobertaCrossAttention", "attends to an encoder"),
]


@pytest.mark.parametrize(("model", "made", "setting"), GUARDS, ids=[each[1] for each in GUARDS])
def test_what_makes_a_class_is_set(model, made, setting, tmp_path):
    guards = find_guards(variant_of(model, tmp_path))
    assert (made, setting) in [(name, each.name) for name, each in guards]


def test_a_head_is_run_that_a_class_is_part_of(tmp_path):
    clip = variant_of("clip", tmp_path)
    assert clip.heads[0] == "CLIPForImageClassification"
    assert find_head_of(clip, "CLIPVisionEmbeddings") == "CLIPForImageClassification"
    assert find_head_of(clip, "CLIPTextEmbeddings") == "CLIPModel"
    assert find_head_of(clip, "CLIPTextModelWithProjection") == "CLIPTextModelWithProjection"
    # Its text model is built by way of AutoModel, which no name says.
    gemma = variant_of("gemma3", tmp_path)
    assert find_head_of(gemma, "Gemma3MultiModalProjector") == "Gemma3Model"
    assert {"Gemma3Model", "Gemma3TextModel"} <= {*changed_heads(gemma)}


@pytest.mark.parametrize("model", ["whisper", "mllama", "qwen3_vl"])
def test_each_kind_each_head_and_each_input_comes_early(model, tmp_path):
    """Within the cost of 80 steps: what comes later may not fit into the time."""
    variant = variant_of(model, tmp_path)
    cases = select_cases(variant, ())
    costs = accumulate(map(cost_of, cases))
    early = [case for case, cost in zip(cases, costs, strict=True) if cost < 80]
    kinds = {(case.kind, case.scenario.rows == "full") for case in cases if case.kind != "compiled"}
    assert kinds <= {(case.kind, case.scenario.rows == "full") for case in early}
    heads = {case.head for case in cases if case.kind == "numbers"}
    assert heads == {case.head for case in early if case.kind == "numbers"}
    placed = {(case.head, way) for case in cases for way in case.scenario.ways if way in PLACED}
    assert placed <= {(case.head, way) for case in early for way in case.scenario.ways}


# Cases that transformers' own tiny model does not run either.
NOTHING = [
    ("zamba2", "generates: greedy"),
    ("zamba2", "float64 packed closest"),
    ("musicgen", "generates: static cache"),
]


@pytest.mark.parametrize(("model", "ending"), NOTHING)
def test_what_the_parent_does_not_run_either_does_not_fail(model, ending, tmp_path):
    variant = variant_of(model, tmp_path)
    cases = select_cases(variant, ())
    case = next(case for case in cases if case.name.endswith(ending))
    assert CaseRunner(variant).run(case).status == "NONE"


def test_a_case_leaves_nothing_to_the_next(tmp_path):
    """Qwen2-VL keeps how far positions of a text are moved."""
    variant = variant_of("qwen2_vl", tmp_path)
    runner = CaseRunner(variant)
    cases = select_cases(variant, ())
    for ending in ("generates: greedy", "Generation cache", "Generation cache behind padding"):
        case = next(case for case in cases if case.name.endswith(ending))
        assert runner.run(case).status == "PASS", ending


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_NAME)[::32])
def test_a_variant_that_changes_nothing_does_not_fail(name, tmp_path):
    found = neutral.judge(BY_NAME[name], tmp_path, seconds=15)
    assert found["verdict"] != "fails", found["fails"]
