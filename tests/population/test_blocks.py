"""What a block of another model is initialised as: in its own model's way, or a note says that it is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.population.blocks import judge_blocks
from tests.population.models import find_models

MODELS = [model for model in find_models() if model.head and model.pretrained]
SAMPLE = [model for model in MODELS if model.name in ("gemma2", "gpt2")]


def judge_all(models: list, folder: Path) -> Counter[str]:
    counted: Counter[str] = Counter()
    wrong: list[str] = []
    for model in models:
        try:
            found = judge_blocks(model, folder)
        except Exception:  # tiny sizes do not fit every model
            counted["unmade"] += 1
            continue
        wrong += [f"{model.name} {name} {each}" for name, each in found.items() if "wrong" in each]
        counted.update(each.partition(":")[0] for each in found.values())
    print(counted)
    assert not wrong
    return counted


def test_a_sample(tmp_path: Path) -> None:
    assert judge_all(SAMPLE, tmp_path) == {"equal": 1, "told": 2}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_model(tmp_path: Path) -> None:
    counted = judge_all(MODELS, tmp_path)
    assert counted["equal"] > 200
