"""`patchgen lint` on transformers' own modular files: the wrong outputs known to ship, found without running them."""

from __future__ import annotations

import pytest

from patchgen.upstream.files import Files
from patchgen.upstream.lint.case import make_case
from patchgen.upstream.lint.findings import findings
from tests.corpus.corpus import RATCHET, find_package

PACKAGE = find_package()
pytestmark = pytest.mark.skipif(
    PACKAGE is None, reason=f"transformers {RATCHET['release']} is not installed"
)

# Known to be wrong in the wheel: file, code, words of the message.
SHIPPED_WRONG = [
    (
        "vivit",
        "PG702",
        "VivitEmbeddings.interpolate_pos_encoding is shipped without `num_patches = embeddings.shape[1]",
    ),
    ("sam2", "PG705", "`sample` is shipped as `sam2ple`"),
    ("sam2", "PG705", "`sampled` is shipped as `sam2pled`"),
    ("sam2", "PG705", "`same` is shipped as `sam2e`"),
    ("sam3", "PG705", "`sam2ple` is shipped as `sam3ple`"),
    ("sam3", "PG705", "`sam2e` is shipped as `sam3e`"),
    ("deepseek_vl", "PG703", "DeepseekVLImageProcessor.postprocess"),
    ("deepseek_vl", "PG703", "DeepseekVLImageProcessorPil.postprocess"),
    ("moonshine", "PG703", "MoonshineModel._mask_input_features"),
    ("pp_doclayout_v2", "PG703", "PPDocLayoutV2ImageProcessor.extract_custom_vertices"),
    ("deepseek_ocr2", "PG703", "DeepseekOcr2ForConditionalGeneration.pack_image_features"),
    ("deimv2", "PG704", "Deimv2ForObjectDetection._tied_weights_keys"),
]
# Further ones, which lint was the first to tell of.
FOUND = [
    ("rt_detr", "PG726", "SUPPORTED_ANNOTATION_FORMATS"),
    ("gemma", "PG726", "VOCAB_FILES_NAMES"),
    ("glm4v_moe", "PG705", "`Glm4VisionMlp` is shipped as `Glm4vMoeisionMlp`"),
    ("timesfm2_5", "PG706", "use_bias"),
    ("gemma3", "PG730", "prepare_inputs_for_generation"),
]
CLEAN = ["phi3", "qwen2", "data2vec_text", "wavlm"]


def lint(model):
    path = next(PACKAGE.glob(f"models/*/modular_{model}.py"))
    return list(
        findings(make_case(path, Files().text, lambda p: p.relative_to(PACKAGE.parent).as_posix()))
    )


@pytest.mark.parametrize("model, code, words", SHIPPED_WRONG + FOUND)
def test_wrong_output_that_ships_is_found(model, code, words):
    found = [problem for problem in lint(model) if problem.code == code and words in problem.what]
    assert len(found) == 1
    at = found[0].at
    assert at.path.endswith(f"/modular_{model}.py") and at.line > 1 and at.column > 0


@pytest.mark.parametrize("model", CLEAN)
def test_a_clean_file_stays_clean(model):
    assert [str(problem) for problem in lint(model)] == []


def test_vivit_points_at_the_assignment_that_leaks():
    text = (
        next(PACKAGE.glob("models/vivit/modular_vivit.py")).read_text(encoding="utf-8").split("\n")
    )
    leak = next(problem for problem in lint("vivit") if problem.code == "PG702")
    assert text[leak.at.line - 1].strip() == "num_patches = self.patch_embeddings.num_patches"
