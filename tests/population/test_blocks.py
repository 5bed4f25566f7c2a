"""What a block of another model is initialised as: in its own model's way, or a note says that it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.population.blocks import build, judge_blocks, judge_receiver
from tests.population.models import Model, find_models

MODELS = [model for model in find_models() if model.head and model.pretrained]
Judge = Callable[[Model, Path], dict[str, str]]


def judge_all(judge: Judge, models: list[Model], folder: Path) -> Counter[str]:
    counted: Counter[str] = Counter()
    wrong: list[str] = []
    for model in models:
        try:
            build(model)
        except Exception:  # tiny sizes do not fit every model, and some need other libraries
            counted["unmade"] += 1
            continue
        found = judge(model, folder)
        wrong += [f"{model.name} {name} {each}" for name, each in found.items() if "wrong" in each]
        counted.update(each.partition(":")[0] for each in found.values())
    print(counted)
    assert not wrong
    return counted


def test_a_sample(tmp_path: Path) -> None:
    models = [model for model in MODELS if model.name in ("funnel", "gemma2")]
    assert judge_all(judge_blocks, models, tmp_path) == {"equal": 1, "told": 3}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_blocks_of_every_model(tmp_path: Path) -> None:
    counted = judge_all(judge_blocks, MODELS, tmp_path)
    assert counted["equal"] > 300 and counted["unmade"] < 50 and not counted["refused"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_other_model_takes_blocks(tmp_path: Path) -> None:
    counted = judge_all(judge_receiver, MODELS[::2], tmp_path)
    assert counted["equal"] > 1000 and counted["unmade"] < 25
