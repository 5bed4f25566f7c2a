"""The numeric pass: what it must find wrong, and what it must not."""

from dataclasses import replace
from pathlib import Path

import pytest

from patchgen.author.coverage.structure import Task, declared
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

from patchgen.author.coverage.trial import tried
from patchgen.author.coverage.watch import Limits, watched


def written(model, part):
    return declared(
        make_environment(Path.cwd()),
        Task(model, f"transformers.models.{model}.modeling_{model}", part),
    )


@pytest.mark.slow
def test_an_error_of_the_part_is_the_first_failure(tmp_path):
    found = written("mpnet", "sdpa")
    wrong = replace(found, text=found.text.replace("scaling=1 /", "scaling=2 /"))
    assert wrong.text != found.text
    entry = tried(wrong, tmp_path)
    assert (entry.status, entry.key) == ("failed", found.entry.key)
    assert "MPNetForMaskedLM float32 full closest" in entry.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "error"),
    [("sdpa", "scale (attention_interface)"), ("checkpoint", "gradient cut off"), ("loss", "")],
)
def test_a_verified_part_names_the_class_and_the_errors_that_were_seen(part, error):
    ((_, entry),) = watched([written("mpnet", part)], Limits(), jobs=1)
    assert (entry.status, entry.heads[0]) == ("verified", "MPNetForMaskedLM"), entry
    assert any(error in seen for seen in entry.seen)


@pytest.mark.slow
def test_a_child_that_takes_too_long_costs_one_entry():
    found = written("mpnet", "sdpa")
    ((_, entry),) = watched([found], Limits(seconds=0.01), jobs=1)
    assert (entry.status, entry.key) == ("cannot be built here", found.entry.key)
    assert "more than 0 seconds" in entry.why


# What the part changes does not run in the first class that can be built, or beside other norms.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "head", "why"),
    [
        ("qwen3_vl", "Qwen3VLForConditionalGeneration", "it asks AutoModel for its language model"),
        ("idefics3", "Idefics3VisionTransformer", "text alone runs no image layers"),
        ("bamba", "BambaForCausalLM", "its gated norms stay as they are"),
        ("diffllama", "DiffLlamaForCausalLM", "it has an nn.RMSNorm of its own"),
        ("deepseek_v32", "DeepseekV32ForCausalLM", "its LayerNorm gets no gradient"),
        ("modernbert", "ModernBertForMaskedLM", "its LayerNorms have no bias"),
        ("gptj", "GPTJForCausalLM", "the gradient of a bias is rounded once more"),
    ],
)
def test_a_norm_is_verified_where_it_runs(model, head, why):
    ((_, entry),) = watched([written(model, "norm")], Limits(), jobs=1)
    assert (entry.status, entry.heads[0]) == ("verified", head), f"{why}: {entry.why}"


@pytest.mark.slow
def test_layers_run_where_their_forward_is_called_by_name():
    """`layer.forward(...)` runs no hook of SqueezeBERT's layers."""
    ((_, entry),) = watched([written("squeezebert", "checkpoint")], Limits(), jobs=1)
    assert (entry.status, entry.heads[0]) == ("verified", "SqueezeBertForMaskedLM"), entry


# The text model of these has checkpointed layers already; those that the part changes see no text.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "head"),
    [("granite_speech", "GraniteSpeechCTCEncoder"), ("sam3", "Sam3Model")],
)
def test_layers_of_sound_and_images_are_reached(model, head):
    ((_, entry),) = watched([written(model, "checkpoint")], Limits(), jobs=1)
    assert (entry.status, entry.heads[0]) == ("verified", head), entry


@pytest.mark.slow
def test_a_norm_that_is_computed_twice_is_seen(tmp_path):
    found = written("bamba", "norm")
    once = "class BambaRMSNorm(FusedRMSNorm, bamba.BambaRMSNorm):\n    pass\n"
    twice = once.replace(
        "    pass\n",
        "    def forward(self, hidden_states):\n"
        "        super().forward(hidden_states)\n"
        "        return super().forward(hidden_states)\n",
    )
    assert once in found.text
    entry = tried(replace(found, text=found.text.replace(once, twice)), tmp_path)
    assert entry.status == "failed" and "14 calls of rms_norm for 7 norms" in entry.why, entry
