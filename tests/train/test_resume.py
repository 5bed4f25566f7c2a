"""A run that was interrupted and resumed ends with the weights of an uninterrupted run, bit for
bit.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from patchgen.training.loop.folder import RunFolder
from tests.toytree import REPOSITORY, environment
from tests.train.runs import TEXT, Remembered, broken_run, losses, resume, run, weights

DROPOUT = ("hidden_dropout_prob=0.1", "attention_probs_dropout_prob=0.1")
BERT = {"model": "bert", "task": "masked-lm", "config": DROPOUT}


def slow(switches):
    return pytest.param(switches, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "switches",
    [
        {},
        slow(BERT),
        slow({**BERT, "loader": "workers=2"}),
        slow({**BERT, "task": "classification"}),
        slow({**BERT, "model": "bert_moe"}),
        pytest.param(
            {"lora": "rank=4,dropout=0.1"},
            marks=[pytest.mark.slow, pytest.mark.skipif(not find_spec("peft"), reason="peft")],
        ),
        slow({"precision": "amp-bf16", "grad_accum": 2}),
        slow({"optim": "adafactor", "schedule": "cosine", "warmup": 0.2}),
        slow({"packing": "isolated", "model": "llama_packed"}),
        slow({"model": "llama", "checkpoint": "selective"}),
        slow({"eval_every": 2}),
    ],
    ids=str,
)
def test_weights_and_losses_are_those_of_an_unbroken_run(tmp_path, switches):
    given = {"steps": 9, "save_every": 4, **switches}
    whole = run(tmp_path / "whole", **given)
    folder, watch = broken_run(tmp_path / "broken", after=6, **given), Remembered()
    assert not folder.ended
    ended = resume(folder, watch)
    assert ended.resumed_from == 4 and watch.done[0] == 4 and "goes on after step 4" in watch.notes
    assert weights(ended.folder) == weights(whole.folder)
    unbroken = losses(whole.folder)
    assert losses(ended.folder) == [
        *unbroken[:5],
        *unbroken[4:],
    ]  # what was written down before is still there
    assert [figures["loss"] for figures in folder.metrics() if "loss" in figures] == unbroken
    assert len(folder.found()["attempts"]) == 2


@pytest.mark.parametrize(
    "after",
    [slow(7), 8, slow(10)],
    ids=["behind an epoch", "in the second", "behind a checkpoint in it"],
)
def test_over_the_end_of_an_epoch(tmp_path, after):
    text = tmp_path / "text.txt"
    text.write_text(
        "\n\n".join(f"This is passage number {n} of sixty." for n in range(62)), encoding="utf-8"
    )
    given = {
        **BERT,
        "data": (str(text),),
        "vocabulary": 300,
        "steps": 14,
        "save_every": 7 if after < 10 else 5,
    }
    whole = run(tmp_path / "whole", **given)  # 56 passages: seven steps are an epoch
    ended = resume(broken_run(tmp_path / "broken", after=after, **given))
    assert (RunFolder(whole.folder).found()["data"]["rows"][0] + 7) // 8 == 7
    assert weights(ended.folder) == weights(whole.folder)


@pytest.mark.slow
def test_the_weights_of_another_order_or_dropout_would_differ(tmp_path):
    """The tests above could not fail if nothing depended on what they restore."""
    given = {**BERT, "steps": 6}
    plain = run(tmp_path / "plain", **given)
    assert weights(run(tmp_path / "same", **given).folder) == weights(plain.folder)
    assert weights(run(tmp_path / "order", **given, seed=1).folder) != weights(plain.folder)
    without = run(tmp_path / "without", **{**given, "config": ()})
    assert weights(without.folder) != weights(plain.folder)


@pytest.mark.slow
def test_from_an_earlier_checkpoint(tmp_path):
    given = {"steps": 9, "save_every": 3, "keep": 3}
    whole = run(tmp_path / "whole", **given)
    ended = resume(broken_run(tmp_path / "broken", after=8, **given), at=3)
    assert ended.resumed_from == 3 and weights(ended.folder) == weights(whole.folder)


def test_a_run_that_was_killed_behind_its_last_step(tmp_path):
    given = {"steps": 6, "save_every": 3}
    whole = run(tmp_path / "whole", **given)
    folder = RunFolder(shutil.copytree(whole.folder, tmp_path / "killed"))
    (folder.path / "result.json").unlink()
    shutil.rmtree(folder.model)
    ended = resume(folder)
    assert weights(ended.folder) == weights(whole.folder)
    assert ended.figures["steps"] == 6 and ended.figures["eval_loss"] == whole.figures["eval_loss"]


@pytest.mark.slow
def test_a_run_without_a_checkpoint_begins_anew(tmp_path):
    whole = run(tmp_path / "whole")
    watch = Remembered()
    ended = resume(broken_run(tmp_path / "broken", after=2), watch)
    assert ended.resumed_from == 0 and "starts again" in watch.notes[0]
    assert weights(ended.folder) == weights(whole.folder)


@pytest.mark.slow
def test_the_batch_that_was_found_is_kept(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Passage {n}." for n in range(40)), encoding="utf-8")
    given = {
        "data": (str(text),),
        "vocabulary": 300,
        "steps": 5,
        "save_every": 2,
        "batch_size": "auto",
    }
    folder = broken_run(tmp_path / "broken", after=3, **given)
    before, watch = folder.found()["batch_size"], Remembered()
    resume(folder, watch)
    assert folder.found()["batch_size"] == before == 32
    assert not any("batch of" in note for note in watch.notes)  # it is not looked for again


SWITCHES = (
    "--tiny",
    "--length",
    "32",
    "--log-every",
    "1",
    "--eval-every",
    "0",
    "--save-every",
    "5",
    "--steps",
    "500",
)


@pytest.fixture
def killed(tmp_path) -> Iterator[RunFolder]:
    """A run of the command line, killed in its middle."""
    folder = RunFolder(tmp_path / "killed")
    argv = [
        sys.executable,
        "-m",
        "patchgen",
        "train",
        "bert",
        "--task",
        "masked-lm",
        "--output",
        str(folder.path),
    ]
    argv += [
        *SWITCHES,
        "--data",
        str(TEXT),
        *(word for change in DROPOUT for word in ("--config", change)),
    ]
    with subprocess.Popen(
        argv, cwd=REPOSITORY, env=environment(OMP_NUM_THREADS="1"), stderr=subprocess.DEVNULL
    ) as one:
        deadline = time.monotonic() + 200
        while max((figures["step"] for figures in folder.metrics()), default=0) < 12:
            assert one.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(one.pid, signal.SIGKILL)
    assert one.returncode == -signal.SIGKILL
    yield folder


@pytest.mark.slow
def test_after_kill_9(tmp_path, killed):
    reached = int(max(figures["step"] for figures in killed.metrics()))
    assert 12 <= reached < 500 and not killed.ended
    watch = Remembered()
    with pytest.raises(KeyboardInterrupt):
        train_until(killed, watch, reached + 10)
    assert watch.done[0] in (
        reached // 5 * 5,
        reached // 5 * 5 - 5,
    )  # that of the last step may not have been whole
    given = {**BERT, "save_every": 5, "steps": 500}
    whole = broken_run(tmp_path / "whole", after=reached + 10, **given)
    of_whole = {
        figures["step"]: figures["loss"] for figures in whole.metrics() if "loss" in figures
    }
    of_killed = {
        figures["step"]: figures["loss"] for figures in killed.metrics() if "loss" in figures
    }
    assert len(of_whole) >= reached + 9
    assert {step: of_killed[step] for step in of_whole} == of_whole
    last = max(of_whole) // 5 * 5
    name = f"checkpoint-{last}/model.safetensors"
    assert (killed.path / name).read_bytes() == (whole.path / name).read_bytes()


def train_until(folder: RunFolder, watch: Remembered, step: int) -> None:
    """Go on with a run, and break off once more: five hundred steps would take long."""

    def steps(done: int, of: int) -> None:
        watch.done.append(done)
        if done == step:
            raise KeyboardInterrupt

    watch.steps = steps
    resume(folder, watch)
