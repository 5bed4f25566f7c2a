"""The checked-in comparison with stock models (benchmarks/training.py) is complete and passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY

PAGE: Path = REPOSITORY / "docs" / "records"
RECORD = json.loads((PAGE / "training.json").read_text(encoding="utf-8"))
WITHIN = 0.02


def ends(model: str) -> dict[int, float]:
    return {run["seed"]: run["eval_loss"] for run in RECORD["runs"] if run["model"] == model}


@pytest.mark.parametrize(("variant", "stock"), [("llama_sdpa", "llama"), ("bert_moe", "bert")])
def test_a_variant_ends_where_the_stock_model_ends(variant, stock):
    ours, theirs = ends(variant), ends(stock)
    assert ours.keys() == theirs.keys() and len(ours) >= 3
    mean = sum(ours.values()) / sum(theirs.values()) - 1
    assert abs(mean) <= WITHIN


def test_the_stock_models_learned_more_than_frequencies():
    for run in RECORD["runs"]:
        assert run["eval_loss"] < run["frequencies"] * (1 - 2 * WITHIN), run["model"]


def test_the_page_and_the_pictures_are_of_these_runs():
    page = (PAGE / "training.md").read_text(encoding="utf-8")
    for row in RECORD["summary"]:
        assert f"| {row['model']} | {row['mean']:.4f} | {row['spread']:.4f} |" in page
        assert row["model"] in (PAGE / f"{row['stock']}.svg").read_text(encoding="utf-8")
        losses = ends(row["model"])
        assert row["mean"] == pytest.approx(sum(losses.values()) / len(losses))
