"""Failures during and between runs: the error is clear, and nothing saved is lost."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from patchgen.cli.commands import patchgen as command_line
from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.checkpoints import SEAL, clear_checkpoint, find_damage
from patchgen.training.loop.failures import resume_hint
from patchgen.training.loop.folder import create_folder, lock_run
from patchgen.training.loop.run import train
from patchgen.training.parallel.engine import Engine
from tests.train.runs import TEXT, Remembered, broken_run, recipe, resume, run, weights

SAVED = {"steps": 9, "save_every": 3, "keep": 3}


class Does(Remembered):
    """Does something after a step."""

    def __init__(self, after: int, what: Callable[[], object]) -> None:
        super().__init__()
        self.after, self.what = after, what

    def steps(self, done: int, of: int) -> None:
        super().steps(done, of)
        if done == self.after:
            self.what()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run."""
    return run(tmp_path_factory.mktemp("whole") / "run", **SAVED)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run that was broken off after the second checkpoint."""
    return broken_run(tmp_path_factory.mktemp("once") / "run", after=8, **SAVED)


@pytest.fixture
def broken(tmp_path, once):
    """The same, to be damaged."""
    shutil.copytree(once.path, tmp_path / "run")
    return type(once)(tmp_path / "run")


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
    ids=[
        "a bit of the weights",
        "a bit of the optimizer",
        "no generator",
        "a file cut off",
        "no seal",
    ],
)
def test_a_damaged_checkpoint_is_reported(broken, spoil, message):
    spoil(broken.path / "checkpoint-6")
    with pytest.raises(PatchgenError, match="PG818") as refused:
        resume(broken)
    assert message in str(refused.value) and "--at 3" in refused.value.problem.hint


def test_the_checkpoint_before_a_damaged_one_serves(broken, whole):
    flip(broken.path / "checkpoint-6" / "model.safetensors")
    ended = resume(broken, at=3)
    assert ended.resumed_from == 3 and weights(ended.folder) == weights(whole.folder)


def test_a_checkpoint_that_was_being_written_is_left_out(broken, whole):
    (broken.path / "checkpoint-6" / SEAL).unlink()
    (broken.path / "checkpoint-6" / "trainer_state.json").unlink()
    watch = Remembered()
    ended = resume(broken, watch)
    assert ended.resumed_from == 3 and "checkpoint-6 was being written" in watch.notes[0]
    assert weights(ended.folder) == weights(whole.folder)


def test_a_checkpoint_that_is_written_again_has_nothing_of_the_one_before(broken, whole):
    """Parts that another engine has left would be read in place of what is written."""
    again = broken.path / "checkpoint-6"
    left = again / "shard-00001-of-00002.safetensors"
    left.write_bytes((again / "model.safetensors").read_bytes())
    ended = resume(broken, at=3)
    assert (
        not left.exists()
        and not find_damage(again)
        and weights(ended.folder) == weights(whole.folder)
    )


def test_a_checkpoint_makes_way_with_its_seal_first(tmp_path, once, monkeypatch):
    """Killed in between, it is none that was whole."""
    at = shutil.copytree(once.path / "checkpoint-6", tmp_path / "checkpoint-6")
    monkeypatch.setattr(shutil, "rmtree", lambda folder: interrupt())
    with pytest.raises(KeyboardInterrupt):
        clear_checkpoint(at)
    assert (at / "model.safetensors").exists() and not (at / SEAL).exists()


def test_a_step_that_has_no_checkpoint(broken):
    with pytest.raises(PatchgenError, match="PG818.*no checkpoint of step 5; there are: 3, 6"):
        resume(broken, at=5)


def test_a_full_disk(tmp_path, whole):
    """Limit the size of files to that of the first checkpoint's: it acts as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "run"
    watch = Does(4, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1])))
    try:
        with pytest.raises(PatchgenError, match="PG910") as refused:
            run(path, watch=watch, **SAVED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (
        "cannot be written" in str(refused.value)
        and "goes on after step 3" in refused.value.problem.hint
    )
    assert [folder.name for folder in path.glob("checkpoint-*")] == ["checkpoint-3"]
    assert not find_damage(path / "checkpoint-3")
    folder = type(create_folder(str(tmp_path / "other"), recipe()))(path)
    assert weights(resume(folder).folder) == weights(whole.folder)


def test_a_disk_that_is_too_small_from_the_beginning(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(PatchgenError, match="PG910.*3 checkpoints take"):
        run(tmp_path / "run", save_every=2)
    run(tmp_path / "without", save_every=0, steps=1)


def test_memory_that_runs_out_in_the_middle(tmp_path):
    def no_memory():
        raise MemoryError

    with pytest.raises(PatchgenError, match="PG816") as refused:
        run(tmp_path / "run", watch=Does(4, no_memory), **SAVED)
    assert "goes on after step 3" in refused.value.problem.hint


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    with pytest.raises(PatchgenError, match="PG820.*at step"):
        run(tmp_path / "run", learning_rate=1e30, steps=20)


def test_a_defect_is_not_taken_for_a_full_disk(tmp_path):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "run", watch=Does(2, fail))


def test_a_folder_that_is_in_use(tmp_path, broken):
    with pytest.raises(PatchgenError, match="PG817.*not an empty folder") as refused:
        run(broken.path)
    assert f"--resume {broken.path}" in refused.value.problem.hint
    with lock_run(broken, Engine()), pytest.raises(PatchgenError, match="PG817.*another process"):
        resume(broken)


def test_runs_that_begin_at_once_have_folders_of_their_own(tmp_path, monkeypatch):
    """Each sees what was there before the other's was made."""
    monkeypatch.chdir(tmp_path)
    slow, quick = recipe(learning_rate=1e-4), recipe(learning_rate=1e-2)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    first, second = create_folder("", slow), create_folder("", quick)
    assert first.path != second.path and (first.recipe(), second.recipe()) == (slow, quick)
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(()))
    with pytest.raises(PatchgenError, match="PG817.*not an empty folder"):
        create_folder(str(first.path), quick)
    assert first.recipe() == slow


@pytest.mark.parametrize("path", ["file/run", "file"])
def test_a_folder_that_cannot_be_made(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(PatchgenError, match="PG817"):
        create_folder(str(tmp_path / path), recipe())


def test_a_checkpoint_that_was_being_written_is_no_way_on(broken):
    assert "goes on after step 6" in resume_hint(broken)
    (broken.path / "checkpoint-6" / SEAL).unlink()
    assert "goes on after step 3" in resume_hint(broken)
    (broken.path / "checkpoint-3" / SEAL).unlink()
    assert resume_hint(broken) == "the run has no checkpoint yet"


def test_a_run_that_has_just_begun_is_not_taken_away_by_another_process(tmp_path):
    asked = recipe()
    folder = create_folder(str(tmp_path / "run"), asked)
    with lock_run(folder, Engine()), pytest.raises(PatchgenError, match="PG817.*another process"):
        train(asked, folder, Remembered())
    assert folder.recipe() == asked


def test_a_folder_that_is_no_run(tmp_path):
    done = CliRunner().invoke(
        command_line, ["train", "--resume", str(tmp_path)], standalone_mode=False
    )
    assert isinstance(done.exception, PatchgenError) and "PG817" in str(done.exception)


@pytest.mark.parametrize(
    ("name", "text"), [("recipe.json", "[]"), ("recipe.json", ""), ("run.json", "{")]
)
def test_a_run_whose_words_cannot_be_read(broken, name, text):
    (broken.path / name).write_text(text)
    with pytest.raises(PatchgenError, match="PG817") as refused:
        resume(broken)
    assert name in str(refused.value)


@pytest.mark.parametrize(
    ("beside", "figures"),
    [
        (["--steps", "100"], "takes no --steps"),
        (["--output", "elsewhere"], "takes no --output"),
        (["--at", "3", "--search", "loss"], "--at needs --resume"),
    ],
    ids=["a switch", "another folder", "a step of a search"],
)
def test_nothing_is_said_beside_resume(broken, beside, figures):
    done = CliRunner().invoke(
        command_line, ["train", "--resume", str(broken.path), *beside], standalone_mode=False
    )
    assert figures in str(done.exception)


def test_a_step_without_a_run(tmp_path):
    argv = ["train", "llama", "--at", "3", "--output", str(tmp_path / "run")]
    done = CliRunner().invoke(command_line, argv, standalone_mode=False)
    assert "--at needs --resume" in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("made_before", [False, True])
def test_a_run_that_was_refused_leaves_nothing(tmp_path, made_before):
    path = tmp_path / "run"
    if made_before:
        path.mkdir()
    with pytest.raises(PatchgenError, match="PG816"):
        run(path, batch_size="auto", memory=0.001)
    assert not path.exists()
    run(path, steps=1)


def test_a_text_that_is_another_one(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Passage {n}." for n in range(90)), encoding="utf-8")
    folder = broken_run(tmp_path / "run", after=3, data=(str(text),), vocabulary=300)
    text.write_text(text.read_text().replace("Passage 7.", "Passage seven."), encoding="utf-8")
    with pytest.raises(PatchgenError, match="PG817.*not what the run began with"):
        resume(folder)


def test_control_c_says_how_to_go_on(tmp_path, monkeypatch):
    from patchgen.cli.train import _Lines

    monkeypatch.setattr(_Lines, "steps", lambda self, done, of: Does(4, interrupt).steps(done, of))
    switches = [
        "--tiny",
        "--steps",
        "9",
        "--save-every",
        "3",
        "--length",
        "32",
        "--data",
        str(TEXT),
        "--output",
        str(tmp_path / "run"),
    ]
    done = CliRunner().invoke(command_line, ["train", "llama", *switches], standalone_mode=False)
    assert isinstance(done.exception, KeyboardInterrupt) or done.exit_code == 1
    assert "--resume" in done.stderr and "goes on after step 3" in done.stderr


def interrupt():
    raise KeyboardInterrupt


def test_a_run_that_has_ended_is_left_alone(whole):
    done = CliRunner().invoke(
        command_line, ["train", "--resume", str(whole.folder)], standalone_mode=False
    )
    assert done.exception is None and "is finished" in done.stderr


def test_a_line_that_was_cut_off_is_no_figure(broken):
    with (broken.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 9, "loss": 1')
    steps = [figures["step"] for figures in broken.metrics() if "loss" in figures]
    assert steps == list(range(1, len(steps) + 1)) and 9 not in steps
    assert json.loads((broken.path / "recipe.json").read_text())["steps"] == 9
    for step in (8, 9):  # what is measured when the run goes on stands on lines of its own
        broken.measure({"step": step, "loss": 1.0})
    assert [figures["step"] for figures in broken.metrics() if "loss" in figures] == [
        *(s for s in steps if s < 8),
        8,
        9,
    ]
