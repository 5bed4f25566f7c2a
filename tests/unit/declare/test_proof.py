"""The proof of a draft: what it must find wrong, and what it must not."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.request import answer
from patchgen.author.proof import prove
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package
from tests.unit.declare.test_request import FAST_OF

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another transformers"
)


def draft(model, part):
    return answer(make_environment(Path.cwd()), model, [part]).draft


def test_a_head_that_the_part_spares_shows_nothing_of_it(tmp_path):
    proof = prove(draft("bert", "flash"), tmp_path)
    assert proof.status == "verified", proof.why
    assert proof.heads[0] == "BertForMaskedLM" and "effect of flash" in proof.seen


@pytest.mark.slow
def test_an_error_of_the_part_is_the_first_failure(tmp_path):
    found = draft("mpnet", "sdpa")
    wrong = replace(found, text=found.text.replace("scaling=1 /", "scaling=2 /"))
    assert wrong.text != found.text
    proof = prove(wrong, tmp_path)
    assert proof.status == "failed" and "MPNetForMaskedLM float32 full closest" in proof.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "part", "head", "why"),
    [
        ("mpnet", "sdpa", "MPNetForMaskedLM", "its scores are written out"),
        ("mpnet", "checkpoint", "MPNetForMaskedLM", "it has no checkpointing"),
        ("mpnet", "loss", "MPNetForMaskedLM", "its head has a loss"),
        ("qwen3_vl", "norm", "Qwen3VLForConditionalGeneration", "it asks AutoModel for a model"),
        ("idefics3", "norm", "Idefics3ForConditionalGeneration", "images are put into its text"),
        ("aya_vision", "norm", "AyaVisionForConditionalGeneration", "its tower is another file's"),
        ("gptj", "loss", "GPTJForCausalLM", "its table of attentions knows few names"),
        ("codegen", "loss", "CodeGenForCausalLM", "its head has a bias"),
        ("bamba", "norm", "BambaForCausalLM", "its gated norms stay as they are"),
        ("modernbert", "norm", "ModernBertForMaskedLM", "its LayerNorms have no bias"),
        ("bert", "norm", "BertForMaskedLM", "its LayerNorms differ under autocast alone"),
        ("electra", "flash", "ElectraForMaskedLM", "it widens embeddings before its layers"),
        ("stablelm", "flash", "StableLmForCausalLM", "its layers keep lengths from attention"),
        ("nemotron", "flash", "NemotronForCausalLM", "its layers keep lengths from attention"),
    ],
)
def test_a_verified_part_names_the_class_and_the_errors_that_were_seen(
    model, part, head, why, tmp_path
):
    proof = prove(draft(model, part), tmp_path)
    assert (proof.status, proof.heads[0]) == ("verified", head), f"{why}: {proof.why}"
    assert proof.seen
    if part != "checkpoint":  # which computes the same again
        assert any("error in" in seen or "scale" in seen for seen in proof.seen), proof.seen


@pytest.mark.slow
def test_a_part_of_a_sum_whose_layers_no_class_runs_is_named(tmp_path):
    proof = prove(draft("gemma4", "fast"), tmp_path)
    assert (proof.status, proof.unreached) == ("verified", ("norm",)), proof.why
    assert any("error in" in seen for seen in proof.seen)


@pytest.mark.slow
def test_a_norm_that_is_computed_twice_is_seen(tmp_path):
    found = draft("bamba", "norm")
    once = "class BambaRMSNorm(FusedRMSNorm, bamba.BambaRMSNorm):\n    pass\n"
    twice = once.replace(
        "    pass\n",
        "    def forward(self, hidden_states):\n"
        "        super().forward(hidden_states)\n"
        "        return super().forward(hidden_states)\n",
    )
    assert once in found.text
    proof = prove(replace(found, text=found.text.replace(once, twice)), tmp_path)
    assert proof.status == "failed" and "14 calls of rms_norm, where 7 norms" in proof.why, proof


@pytest.mark.slow
def test_the_table_is_written_for_one_model(tmp_path):
    script = Path("benchmarks/coverage.py").read_text(encoding="utf-8")
    script = script.replace('REPOSITORY / "docs" /', f'Path("{tmp_path}") /')
    script = script.replace("Path(__file__).resolve().parents[1]", f'Path("{Path.cwd()}")')
    (tmp_path / "coverage.py").write_text(script, encoding="utf-8")
    argv = [sys.executable, tmp_path / "coverage.py", "mpnet", "--part", "loss", "--verify"]
    subprocess.run(argv, check=True)
    page = (tmp_path / "coverage.md").read_text(encoding="utf-8")
    assert "| mpnet |  |  | **0.8" in page, page


NOT_PROVED = {
    "internvl": "no inputs are known that run its language model through its own head",
}


def unless_not_proved(model):
    if model not in NOT_PROVED:
        return model
    return pytest.param(model, marks=pytest.mark.xfail(strict=True, reason=NOT_PROVED[model]))


@pytest.mark.slow
@pytest.mark.parametrize("model", map(unless_not_proved, FAST_OF))
def test_fast_is_verified_for_models_that_people_train(model, tmp_path):
    proof = prove(draft(model, "fast"), tmp_path)
    assert proof.status == "verified" and proof.seen, proof.why
