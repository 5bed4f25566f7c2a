"""The search for settings: every trial is kept, and of two objectives the front."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("optuna")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.folder import create_folder
from patchgen.training.loop.run import train
from patchgen.training.loop.search import search
from tests.train.runs import Remembered, recipe


def run(path, text, **switches):
    asked = recipe(**switches)
    return search(asked, text, create_folder(str(path), asked), Remembered())


@pytest.mark.slow
def test_the_loss(tmp_path):
    found = run(tmp_path / "run", "trials=3", learning_rate=1e-3)
    assert len(found) == 3 and [one.front for one in found] == [True, False, False]
    assert found[0].values[0] == min(one.values[0] for one in found)
    settings = [dict(one.settings) for one in found]
    assert all(1e-4 <= each["learning_rate"] <= 1e-2 for each in settings)
    assert all(each["per_device_train_batch_size"] in (4, 8, 16) for each in settings)
    figures = json.loads((tmp_path / "run" / "search.json").read_text())
    assert figures["trials"][0]["settings"] == settings[0]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["trial"] for line in lines} == {0, 1, 2}
    # The settings were not only drawn: the largest learning rate that was logged is the trial's.
    for one in found:
        mine = [
            figures
            for figures in map(json.loads, lines)
            if figures["trial"] == one.number and "learning_rate" in figures
        ]
        assert max(figures["learning_rate"] for figures in mine) <= dict(one.settings)[
            "learning_rate"
        ] * (1 + 1e-9)
        assert (
            max(figures["learning_rate"] for figures in mine)
            > dict(one.settings)["learning_rate"] * 0.5
        )


@pytest.mark.slow
def test_loss_and_throughput(tmp_path):
    found = run(tmp_path / "run", "loss,throughput,trials=4,steps=4")
    front = [one for one in found if one.front]
    assert front and all(one.values[1] > 0 for one in found)
    for one in found:
        beaten = [
            o
            for o in found
            if o.values[0] <= one.values[0] and o.values[1] >= one.values[1] and o != one
        ]
        assert one.front == (not beaten)
    picture = (tmp_path / "run" / "search.svg").read_text()
    assert ET.fromstring(picture).tag.endswith("svg") and "Pareto front" in picture


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_broken_off(tmp_path):
    asked = recipe(steps=2)
    folder = create_folder(str(tmp_path / "run"), asked)
    first = search(asked, "trials=1", folder, Remembered())
    watch = Remembered()
    found = search(asked, "trials=2", folder, watch)
    assert len(found) == 2 and "1 trials ended before" in watch.notes
    assert first[0].values in [one.values for one in found]
    assert len({one.settings for one in found}) == 2
    with pytest.raises(PatchgenError, match="PG817.*other objectives"):
        search(asked, "loss,throughput,trials=2", folder, Remembered(), resume=True)
    assert (folder.path / "search.json").is_file()


@pytest.mark.slow
def test_a_search_and_a_run_do_not_go_on_in_each_others_folders(tmp_path):
    asked = recipe(steps=1)
    searched, trained = (
        create_folder(str(tmp_path / "search"), asked),
        create_folder(str(tmp_path / "run"), asked),
    )
    search(asked, "trials=1", searched, Remembered())
    train(asked, trained, Remembered())
    before = searched.metrics(), trained.metrics()
    with pytest.raises(PatchgenError, match="PG817 was started as a search") as refused:
        train(asked, searched, Remembered(), resume=True)
    assert f"--resume {searched.path} --search" in refused.value.problem.hint
    with pytest.raises(PatchgenError, match="PG817 was started as a run"):
        search(asked, "trials=1", trained, Remembered(), resume=True)
    assert (searched.metrics(), trained.metrics()) == before
    assert len(search(asked, "trials=1", searched, Remembered(), resume=True)) == 1


def test_batches_around_auto(tmp_path):
    with pytest.raises(PatchgenError, match="PG813.*around a number of rows"):
        run(tmp_path / "run", "trials=1", batch_size="auto")
    assert not (tmp_path / "run").exists()
