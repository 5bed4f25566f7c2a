"""transformers' own tests of a model, on each variant as on its parent.

They are not in transformers' distribution, so this needs a checkout of its repository:

    TRANSFORMERS_CHECKOUT=../transformers python -m pytest tests/use/test_model_tests.py -m slow

The installed transformers is tested, with the checkout's tests; take the tag of that release.  They
need `pip install httpx pillow`.  A model takes 15 to 60 s of CPU.  What came of a parent's tests is
kept in `runs/model-tests`.
`BY_DESIGN` lists what a variant does otherwise, and docs/parity/model-tests.md says it to users.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patchgen.verifying.variants import find_variants
from tests.gallery import GALLERY
from tests.toytree import REPOSITORY, environment

CHECKOUT = os.environ.get("TRANSFORMERS_CHECKOUT", "")
KEPT = REPOSITORY / "runs/model-tests"
PAGE = REPOSITORY / "docs/parity/model-tests.md"

# By part or variant, the tests that it fails or skips, and why that has to be so.
_FROM_ZERO = "begins positions with 0: RoBERTa's begin with 2, and the variant refuses others"
_NO_CHECKPOINTING = "passes over the parent, which has no checkpointing, and "
_OTHER_ROUTERS = "looks for `router_logits`: this model has `encoder_router_logits`"
_ANNOTATED = (
    "reads the annotation of `forward`, which is the parent's: the head returns "
    "`MoeCausalLMOutputWithPast`"
)
_DENSE_HEADS = (
    "is skipped on the parent; takes every head, and those that the variant lacks are BERT's own"
)
_ZEROS = (
    "compares what stands at padding: zeros, or the parent's states where "
    "`chunk_size_feed_forward` needs rows of one length"
)
BY_DESIGN = {
    "flash": {"test_feed_forward_chunking": _ZEROS},
    "llama_moe": {"test_moe_models_record_router_logits": _ANNOTATED},
    "bert_moe": {
        "test_moe_models_record_router_logits": _DENSE_HEADS,
        "test_eager_matches_batched_and_grouped_inference": _DENSE_HEADS,
    },
    "roberta_padding_free": {
        "test_eager_padding_matches_padding_free_with_position_ids": _FROM_ZERO,
        "test_sdpa_padding_matches_padding_free_with_position_ids": _FROM_ZERO,
    },
    "openai_checkpoint": {
        "test_training_gradient_checkpointing": _NO_CHECKPOINTING
        + "gives no `mc_labels`: the second head has no gradient",
    },
    "xlnet_checkpoint": {
        "test_training_gradient_checkpointing": _NO_CHECKPOINTING
        + "gives no `target_mapping`: `mask_emb` has no gradient",
    },
    "switch_transformers_grouped": {
        "test_moe_models_record_router_logits": _OTHER_ROUTERS,
        "test_eager_matches_batched_and_grouped_inference": "is skipped on the parent; "
        "casts flags as if they were tensors, and its encoder has no experts",
    },
    "dbrx_grouped": {
        "test_moe_parallel_plans_shard_experts": "is skipped on the parent, whose plan splits no "
        "experts either",
        "test_eager_matches_batched_and_grouped_inference": "is skipped on the parent; with random "
        "weights, half precision and little tolerance, it fails now and then",
    },
}
# By variant, errors of tests whose models are too small for it.
_ROWS = (
    "torch's grouped product takes rows of whole 16 bytes, and here a layer has 37 channels: "
    '`experts_implementation="eager"` takes any'
)
_TOO_NARROW = "strides should be multiple of 16 bytes"
TOO_SMALL = {
    "switch_transformers_grouped": {_TOO_NARROW: _ROWS},
}
# Variants that get rows of whole 16 bytes where the tests give a layer 37 channels, for the same
# reason: nearly all tests of BERT would end with that error.
WIDENED = {"bert_moe": ("intermediate_size=37", "intermediate_size=40")}
# Tests that draw what they need at random, and fail now and then on the parent too.
UNSTEADY = {
    "test_inputs_embeds_matches_input_ids",
    "test_eager_padding_matches_padding_free_with_position_ids",
}
# Variants that `patchgen new` writes, for models that are not in the gallery.
WRITTEN = (
    ("mistral", "norm"),
    ("gemma", "loss"),
    ("vit", "norm"),
    ("qwen2", "fast"),
    ("electra", "fast"),
)

needs_checkout = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not CHECKOUT, reason="TRANSFORMERS_CHECKOUT names no checkout"),
]


def run_tests(model, folder, variant="", home=REPOSITORY, widened=("", "")):
    """What came of each of transformers' tests of `model`; with `variant` in the parent's place."""
    tests = folder / "checkout"
    if not tests.exists():
        shutil.copytree(Path(CHECKOUT, "tests"), tests / "tests")
        shutil.copytree(Path(CHECKOUT, "utils"), tests / "utils")
        for name in ("conftest.py", "pyproject.toml", "setup.py"):
            shutil.copy(Path(CHECKOUT, name), tests)
        shutil.copy(Path(__file__).with_name("swapped_parent.py"), tests)
        (tests / "src").mkdir()  # where conftest.py looks for the package: it is the installed one
        (tests / "src/transformers").symlink_to(Path(transformers.__file__).parent)
    source = tests / f"tests/models/{model}/test_modeling_{model}.py"
    source.write_text(source.read_text(encoding="utf-8").replace(*widened), encoding="utf-8")
    results = folder / "results.json"
    settings = {
        "MODEL_TESTS_PARENT": f"transformers.models.{model}.modeling_{model}",
        "MODEL_TESTS_RESULTS": str(results),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*map(str, (tests, home)), os.environ.get("PYTHONPATH", "")]),
    }
    if variant:
        settings["MODEL_TESTS_VARIANT"] = variant
    options = (
        "-q -p swapped_parent -p no:cacheprovider --timeout 240 --tb=short -o log_cli=0 -W ignore"
    )
    argv = [sys.executable, "-m", "pytest", *options.split()]
    argv.append(str(source.relative_to(tests)))
    done = subprocess.run(
        argv, cwd=tests, env=environment(**settings), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(results.read_text(encoding="utf-8"))


def parents_results(model, folder):
    """As they were kept by a run with the same release and the same tests."""
    source = Path(CHECKOUT, f"tests/models/{model}/test_modeling_{model}.py").read_bytes()
    source += Path(CHECKOUT, "tests/test_modeling_common.py").read_bytes()
    key = hashlib.sha256(source + transformers.__version__.encode()).hexdigest()[:12]
    kept = KEPT / f"{model}-{key}.json"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(run_tests(model, folder)), encoding="utf-8")
    return json.loads(kept.read_text(encoding="utf-8"))


def find_differences(parent, variant, names):
    """The tests that come out worse on the variant, and are not listed for its name or a part."""
    excused = {test for name in names for test in BY_DESIGN.get(name, ())} | UNSTEADY
    too_small = [error for name in names for error in TOO_SMALL.get(name, ())]
    for test, (state, skipped, _) in parent.items():
        own, own_skipped, message = variant.get(test, ("missing", 0, ""))
        if any(error in message for error in too_small):
            continue
        worse = own != state and state != "failed" and (state, own) != ("skipped", "passed")
        if (worse or own_skipped > skipped) and not is_excused(test, excused):
            yield f"{test}: {own}, the parent {state}. {message}"


def is_excused(test, names):
    """Whether a test has one of the names, which its parameters follow."""
    own = test.rpartition("::")[2]
    return any(own == name or own.startswith((f"{name}_", f"{name}[")) for name in names)


@pytest.mark.parametrize("variant", GALLERY, ids=lambda each: each.name)
class TestGallery:
    pytestmark = needs_checkout

    def test_passes_what_its_parent_passes(self, variant, tmp_path):
        model = variant.parent.split(".")[2]
        if not Path(CHECKOUT, f"tests/models/{model}").is_dir():
            pytest.skip(f"the checkout has no tests of {model}")
        parent = parents_results(model, tmp_path)
        widened = WIDENED.get(variant.name, ("", ""))
        ours = run_tests(model, tmp_path, variant.module, widened=widened)
        assert not [*find_differences(parent, ours, (variant.name, *variant.parts))]


@pytest.mark.parametrize(("model", "parts"), WRITTEN)
class TestWritten:
    pytestmark = needs_checkout

    def test_passes_what_its_parent_passes(self, model, parts, tmp_path):
        home = tmp_path / "project"
        variant = write_variant(home, model, parts)
        parent = parents_results(model, tmp_path)
        ours = run_tests(model, tmp_path, variant.module, home)
        assert not [*find_differences(parent, ours, variant.parts)]


def write_variant(home, model, parts):
    """The variant that `patchgen new` writes into a new project."""
    home.mkdir()
    settings = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
    (home / "pyproject.toml").write_text(settings, encoding="utf-8")
    for command in (["new", model, "--with", parts, "--no-proof"], ["convert"]):
        argv = [sys.executable, "-m", "patchgen", *command]
        env = environment(PYTHONPATH=str(REPOSITORY))
        done = subprocess.run(argv, cwd=home, env=env, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
    (variant,) = find_variants(home)
    return variant


def test_what_differs_by_design_is_reported_with_its_reason():
    page = PAGE.read_text(encoding="utf-8")
    for listed in (BY_DESIGN, TOO_SMALL):
        for name, tests in listed.items():
            for test, reason in tests.items():
                assert f"| {name} | `{test}` | {reason} |" in page
