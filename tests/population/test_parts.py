"""Models that ask AutoModel for their parts: a modular file changes a part, and it is changed.

Each file is written and, as far as the model can be run here, built, saved, loaded and equal to what
Python's inheritance computes; or it is refused with a place.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.population.test_population import none_is_wrong, results_of

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.oracle.judge import judge


def test_a_sample(tmp_path: Path) -> None:  # Qwen3-VL
    results = none_is_wrong(results_of("96/122", tmp_path, "--parts", "--kind", "inner"))
    assert {result["state"] for result in results} == {"equal"}


@pytest.mark.slow
def test_a_part_that_a_property_makes(tmp_path: Path) -> None:
    # vibevoice_acoustic_tokenizer, whose configuration makes that of the encoder when it is asked.
    results = none_is_wrong(results_of("113/122", tmp_path, "--parts"))
    assert {result["state"] for result in results} == {"equal"}


NEW_MODEL = """
from transformers.models.qwen3_vl import modeling_qwen3_vl as hf


class TinyVLTextMLP(hf.Qwen3VLTextMLP):
    def forward(self, x):
        return super().forward(x) * 2


class TinyVLTextModel(hf.Qwen3VLTextModel):
    pass


class TinyVLForConditionalGeneration(hf.Qwen3VLForConditionalGeneration):
    pass
"""


@pytest.mark.slow
def test_a_model_that_is_declared_is_the_one_that_is_built(tmp_path: Path) -> None:
    path = tmp_path / "modular_tinyvl_own.py"
    path.write_text(NEW_MODEL, encoding="utf-8")
    files = flatten(path, make_environment(tmp_path), Settings()).files
    assert judge(path, {file.name: file.text for file in files}, tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(1, 9))
def test_all_models(part: int, tmp_path: Path) -> None:
    results = none_is_wrong(results_of(f"{part}/8", tmp_path, "--parts"))
    states = Counter(result["state"] for result in results)
    assert states["refused"] <= 0.1 * states.total()
    assert states["equal"] >= 0.3 * states.total() > 5
