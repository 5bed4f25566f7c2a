"""Failures during and between runs: the error is clear, and nothing saved is lost."""

from __future__ import annotations

import json
import resource
import shutil

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

from filelock import FileLock

from patchgen.cli.commands import patchgen as command_line
from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.checkpoints import (
    SEAL,
    clear_checkpoint,
    find_checkpoint,
    find_damage,
)
from patchgen.training.loop.run import LOCK, resume_hint
from tests.train.runs import SHORT, broken_run, doing, interrupt, resume, run, weights, words

SAVED = {"max_steps": 9, "save_steps": 3}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(folder, **SAVED)
    return folder


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run that was broken off after the second checkpoint."""
    return broken_run(tmp_path_factory.mktemp("once") / "run", after=8, **SAVED)


@pytest.fixture
def broken(tmp_path, once):
    """The same, to be damaged."""
    shutil.copytree(once, tmp_path / "run")
    path = tmp_path / "run" / "arguments.json"
    path.write_text(path.read_text().replace(str(once), str(tmp_path / "run")))
    return tmp_path / "run"


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda at: flip(at / "model.safetensors"), "model.safetensors has changed"),
        (lambda at: flip(at / "optimizer.pt"), "optimizer.pt has changed"),
        (lambda at: (at / "rng_state.pth").unlink(), "rng_state.pth is missing"),
        (lambda at: (at / "scheduler.pt").write_bytes(b""), "scheduler.pt has 0 bytes"),
        (lambda at: (at / SEAL).write_text("{"), "whole.json cannot be read"),
    ],
)
def test_a_damaged_checkpoint_is_reported(broken, spoil, message):
    spoil(broken / "checkpoint-6")
    with pytest.raises(PatchgenError, match="PG818") as refused:
        find_checkpoint(broken)
    assert message in str(refused.value) and "checkpoint-3 is whole" in refused.value.problem.hint


def test_the_checkpoint_before_a_damaged_one_serves(broken, whole):
    flip(broken / "checkpoint-6" / "model.safetensors")
    with pytest.raises(PatchgenError, match="PG818"):
        resume(broken)
    resume(broken, broken / "checkpoint-3")
    assert weights(broken) == weights(whole)


def test_a_checkpoint_that_was_being_written_is_left_out(broken, whole, caplog):
    (broken / "checkpoint-6" / SEAL).unlink()
    (broken / "checkpoint-6" / "trainer_state.json").unlink()
    assert "goes on after step 3" in resume_hint(broken)
    resume(broken)
    assert "checkpoint-6 was being written" in caplog.text
    assert weights(broken) == weights(whole)


def test_a_checkpoint_that_is_written_again_has_nothing_of_the_one_before(broken, whole):
    """Parts that another engine has left would be read in place of what is written."""
    again = broken / "checkpoint-6"
    left = again / "shard-00001-of-00002.safetensors"
    left.write_bytes((again / "model.safetensors").read_bytes())
    resume(broken, broken / "checkpoint-3")
    assert not left.exists() and not find_damage(again) and weights(broken) == weights(whole)


def test_a_checkpoint_makes_way_with_its_seal_first(tmp_path, once, monkeypatch):
    """Killed in between, it is none that was whole."""
    at = shutil.copytree(once / "checkpoint-6", tmp_path / "checkpoint-6")
    monkeypatch.setattr(shutil, "rmtree", lambda folder: interrupt())
    with pytest.raises(KeyboardInterrupt):
        clear_checkpoint(at)
    assert (at / "model.safetensors").exists() and not (at / SEAL).exists()


def test_a_step_that_has_no_checkpoint(broken):
    with pytest.raises(PatchgenError, match="PG818.*no whole checkpoint.*steps are: 3, 6"):
        resume(broken, broken / "checkpoint-5")


def test_a_full_disk(tmp_path, whole):
    """Limit the size of files to less than that of a checkpoint's: it acts as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))

    try:
        with doing(4, fill), pytest.raises(PatchgenError, match="PG910") as refused:
            run(tmp_path / "run", **SAVED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written" in str(refused.value)
    assert "goes on after step 3" in refused.value.problem.hint
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-3"]
    resume(tmp_path / "run")
    assert weights(tmp_path / "run") == weights(whole)


def test_memory_that_runs_out_in_the_middle(tmp_path):
    def no_memory():
        raise MemoryError

    with doing(4, no_memory), pytest.raises(PatchgenError, match="PG816") as refused:
        run(tmp_path / "run", **SAVED)
    assert "goes on after step 3" in refused.value.problem.hint


def test_a_defect_is_not_taken_for_a_full_disk(tmp_path):
    with doing(2, lambda: 1 / 0), pytest.raises(ZeroDivisionError):
        run(tmp_path / "run")


def test_a_folder_that_is_in_use(tmp_path, broken):
    with pytest.raises(PatchgenError, match="PG817.*checkpoints of another run"):
        run(broken)
    with FileLock(broken / LOCK), pytest.raises(PatchgenError, match="PG817.*another process"):
        resume(broken)
    (tmp_path / "file").touch()
    with pytest.raises(PatchgenError, match="PG817.*cannot be made"):
        run(tmp_path / "file" / "run")


@pytest.mark.parametrize("text", ["[]", ""])
def test_arguments_that_cannot_be_read(broken, text):
    (broken / "arguments.json").write_text(text)
    with pytest.raises(PatchgenError, match="PG817"):
        resume(broken)


def test_a_text_that_is_another_one(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Passage 7. " * 300, encoding="utf-8")
    broken_run(tmp_path / "run", data=[str(text)], save_steps=2)
    text.write_text(text.read_text().replace("7", "8", 1), encoding="utf-8")
    with pytest.raises(PatchgenError, match="PG817.*not what the run began with"):
        resume(tmp_path / "run")


def test_control_c_says_how_to_go_on(tmp_path):
    given = {**SHORT, "save_strategy": "steps", **SAVED, "output_dir": tmp_path / "run"}
    with doing(4, interrupt):
        done = CliRunner().invoke(command_line, ["train", "llama", *words(**given)])
    assert "goes on after step 3" in done.stderr and "--resume_from_checkpoint last" in done.stderr
    assert json.loads((tmp_path / "run" / "arguments.json").read_text())["save_steps"] == 3
