"""A killed process ends the others with an error that says how to resume; resuming is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

from patchgen.training.loop.checkpoints import SEAL, checkpoint_step, find_checkpoint
from tests.toytree import REPOSITORY, environment
from tests.train.runs import SHORT, history, words

PATIENCE = 240  # seconds until a run is where it is to be killed
ENDED_IN = 45  # seconds in which the others have to end: torchrun kills what does not after 30
DROPOUT = ["hidden_dropout_prob=0.1", "attention_probs_dropout_prob=0.1"]
GIVEN = {
    **SHORT,
    "task": "masked-lm",
    "config": DROPOUT,
    "per_device_train_batch_size": 4,
    "save_strategy": "steps",
    "save_steps": 5,
    "max_steps": 10_000,
}


def launch(*argv):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return subprocess.Popen(
        [*torchrun, "-m", "patchgen", "train", *argv],
        cwd=REPOSITORY,
        env=environment(OMP_NUM_THREADS="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def process_of(launcher, rank):
    """The process that the launcher started with the rank."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    for child in children.read_text(encoding="ascii").split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"no process of rank {rank}")


def until(launcher, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert launcher.poll() is None, launcher.stderr.read()[-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_the_others_end_and_going_on_is_exact(tmp_path):
    """Beside the run is one that nobody killed: the next checkpoint is the same, bit for bit."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("which process is which is read from /proc")
    folder, whole = tmp_path / "run", tmp_path / "whole"
    launcher = launch("bert", *words(**GIVEN, output_dir=folder))
    until(launcher, lambda: len(list(folder.glob(f"checkpoint-*/{SEAL}"))) > 1)
    begun = time.monotonic()
    os.kill(process_of(launcher, 1), signal.SIGKILL)
    output = launcher.communicate(timeout=ENDED_IN)[1]
    assert launcher.returncode != 0 and time.monotonic() - begun < ENDED_IN
    assert "PG836" in output and "process 0 of 2 cannot go on" in output
    assert "--resume_from_checkpoint last" in output
    assert "SIGKILL" in output or "Signal 9" in output  # the launcher's own words
    assert "internal error" not in output
    name = f"checkpoint-{checkpoint_step(find_checkpoint(folder)) + 5}"
    stop_behind(
        launch(str(folder / "arguments.json"), "--resume_from_checkpoint", "last"), folder / name
    )
    stop_behind(launch("bert", *words(**GIVEN, output_dir=whole)), whole / name)
    one, other = ((run / name / "model.safetensors").read_bytes() for run in (folder, whole))
    assert one == other
    one, other = (
        [entry["loss"] for entry in history(run / name) if "loss" in entry]
        for run in (folder, whole)
    )
    assert one == other


def stop_behind(launcher, checkpoint):
    """Let a run come to a checkpoint, and stop it as a person would."""
    try:
        until(launcher, (checkpoint / SEAL).exists)
    finally:
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=ENDED_IN)


@pytest.mark.slow
def test_one_launch_from_its_beginning_to_its_end(tmp_path):
    launcher = launch("bert", *words(**{**GIVEN, "max_steps": 6}, output_dir=tmp_path / "run"))
    output = launcher.communicate(timeout=PATIENCE)[1]
    assert launcher.returncode == 0, output[-4000:]
    assert len([entry for entry in history(tmp_path / "run") if "loss" in entry]) == 6
