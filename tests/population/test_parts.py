"""Models that ask AutoModel for their parts: a modular file changes a part, and it is changed.

Each file is written and, as far as the model can be run here, built, saved, loaded and equal to what
Python's inheritance computes; or it is refused with a place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.population.test_population import none_is_broken, results_of

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_a_sample(tmp_path: Path) -> None:  # Qwen3-VL
    results = none_is_broken(results_of("96/122", tmp_path, "--parts"))
    assert {result["state"] for result in results} == {"written"}
    assert all("also after loading" in result["why"] for result in results)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(1, 9))
def test_all_models(part: int, tmp_path: Path) -> None:
    results = none_is_broken(results_of(f"{part}/8", tmp_path, "--parts"))
    written = [result["why"] for result in results if result["state"] == "written"]
    assert len(written) >= 0.9 * len(results) > 50
    assert sum("outputs" in why for why in written) >= 0.5 * len(written)  # compared
