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


# An activation with a weight, a module that is reached by its path, and classes under a condition.
GIVERS = ("dab_detr", "funnel", "gemma2", "maskformer", "xlstm")
# A configuration without `initializer_range`, a base that derives from PreTrainedModel, and what raises upstream.
TAKERS = ("clip", "dac", "xlstm")


def test_a_sample(tmp_path: Path) -> None:
    models = [model for model in MODELS if model.name in GIVERS]
    counted = judge_all(judge_blocks, models, tmp_path)
    assert counted == {"equal": 1, "told": 10, "refused": 1}


def test_a_sample_takes_blocks(tmp_path: Path) -> None:
    models = [model for model in MODELS if model.name in TAKERS]
    counted = judge_all(judge_receiver, models, tmp_path)
    assert counted == {"equal": 5, "told": 9, "raises": 1}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_blocks_of_every_model(tmp_path: Path) -> None:
    counted = judge_all(judge_blocks, MODELS, tmp_path)
    assert counted["equal"] > 270 and counted["unmade"] < 50 and counted["refused"] <= 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_model_takes_blocks(tmp_path: Path) -> None:
    counted = judge_all(judge_receiver, MODELS, tmp_path)
    assert counted["equal"] > 1000 and counted["unmade"] < 50
