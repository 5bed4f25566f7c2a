"""The search for settings: every trial is kept, and of two objectives the front."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")
pytest.importorskip("optuna")

from tests.train.runs import run


def test_the_loss(tmp_path):
    # Nothing of this variant is compiled, whatever batch a trial has.
    given = {"model": "llama_packed", "search": ["loss"], "learning_rate": 1e-3, "max_steps": 2}
    first = run(tmp_path / "run", trials=1, **given)
    tried = run(tmp_path / "run", trials=3, **given)["trials"]  # goes on where it ended
    assert len(tried) == 3 and [trial["best"] for trial in tried] == [True, False, False]
    assert first["trials"][0]["values"] in [trial["values"] for trial in tried]
    assert tried[0]["values"][0] == min(trial["values"][0] for trial in tried)
    for trial in tried:
        assert 1e-4 <= trial["settings"]["learning_rate"] <= 1e-2
        assert trial["settings"]["per_device_train_batch_size"] in (4, 8, 16)
    assert json.loads((tmp_path / "run" / "search.json").read_text())["trials"] == tried
    other = run(tmp_path / "run", trials=1, **{**given, "search": ["throughput"]})
    assert len(other["trials"]) == 1  # of other objectives is another search


@pytest.mark.slow
def test_loss_and_throughput(tmp_path):
    tried = run(tmp_path / "run", search=["loss", "throughput"], trials=4)["trials"]
    assert all(trial["values"][1] > 0 for trial in tried)
    for trial in tried:
        loss, speed = trial["values"]
        beaten = [
            other
            for other in tried
            if other != trial and other["values"][0] <= loss and other["values"][1] >= speed
        ]
        assert trial["best"] == (not beaten)
