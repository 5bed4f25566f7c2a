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

from patchgen.training.loop.checkpoints import SEAL, checkpoint_step, find_checkpoint
from patchgen.training.loop.folder import RunFolder
from tests.toytree import REPOSITORY, environment
from tests.train.runs import weights

PATIENCE = 240  # seconds until a run is where it is to be killed
ENDED_IN = 45  # seconds in which the others have to end: torchrun kills what does not after 30
DROPOUT = ("hidden_dropout_prob=0.1", "attention_probs_dropout_prob=0.1")
SWITCHES = (
    "--tiny",
    "--length",
    "32",
    "--batch-size",
    "4",
    "--log-every",
    "1",
    "--eval-every",
    "0",
)
SWITCHES += (
    "--save-every",
    "5",
    "--keep",
    "99",
    *(word for change in DROPOUT for word in ("--config", change)),
)


def launch(*words):
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    argv += [
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "localhost:0",
        "-m",
        "patchgen",
        "train",
        *words,
    ]
    return subprocess.Popen(
        argv,
        cwd=REPOSITORY,
        env=environment(OMP_NUM_THREADS="1"),
        stderr=subprocess.PIPE,
        text=True,
    )


def begin(folder, steps, *words):
    switches = (
        "--task",
        "masked-lm",
        *SWITCHES,
        "--steps",
        str(steps),
        "--output",
        str(folder.path),
    )
    return launch("bert", *switches, *words)


def process_of(launcher, rank):
    """The process that the launcher started with the rank."""
    for child in (
        Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        .read_text(encoding="ascii")
        .split()
    ):
        output = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in output:
            return int(child)
    raise AssertionError(f"no process of rank {rank}")


def reached(folder):
    return max((figures["step"] for figures in folder.metrics() if "loss" in figures), default=0)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Kill the second process midway; return the output, and how long the first one ran on."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("which process is which is read from /proc")
    folder = RunFolder(tmp_path_factory.mktemp("killed") / "run")
    launcher = begin(folder, 10_000)
    try:
        deadline = time.monotonic() + PATIENCE
        while reached(folder) < 12:
            assert launcher.poll() is None, launcher.stderr.read()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        begun = time.monotonic()
        os.kill(process_of(launcher, 1), signal.SIGKILL)
        output = launcher.communicate(timeout=ENDED_IN)[1]
        return folder, launcher.returncode, output, time.monotonic() - begun
    finally:
        if launcher.poll() is None:
            launcher.kill()
            launcher.communicate()


@pytest.mark.slow
def test_the_others_end_and_say_how_to_go_on(killed):
    folder, code, output, seconds = killed
    assert code != 0 and seconds < ENDED_IN
    assert "PG836" in output and "process 0 of 2 cannot go on" in output and "--resume" in output
    assert (
        "SIGKILL" in output or "Signal 9" in output
    )  # the launcher's own words of the first that ended
    assert "internal error" not in output
    assert not folder.ended and checkpoint_step(find_checkpoint(folder.path)) >= 5
    steps = [line["step"] for line in folder.metrics() if "loss" in line]
    assert steps == list(range(1, len(steps) + 1)), "each is written by one process"


@pytest.mark.slow
def test_going_on_is_exact(killed, tmp_path):
    """The weights of the next checkpoint are, bit for bit, those of a run that nobody killed."""
    folder, whole = killed[0], RunFolder(tmp_path / "whole")
    name = f"checkpoint-{checkpoint_step(find_checkpoint(folder.path)) + 5}"
    stop_behind(launch("--resume", str(folder.path)), folder.path / name)
    stop_behind(begin(whole, 10_000), whole.path / name)
    assert len(folder.found()["attempts"]) == 2
    one, other = ((run.path / name / "model.safetensors").read_bytes() for run in (folder, whole))
    assert one == other
    one, other = (losses_until(run, int(name.partition("-")[2])) for run in (folder, whole))
    assert one == other


def losses_until(run, step):
    by_step = {figures["step"]: figures["loss"] for figures in run.metrics() if "loss" in figures}
    return [by_step[each] for each in range(1, step + 1)]


def stop_behind(launcher, checkpoint):
    """Let a run come to a checkpoint, and stop it as a person would."""
    deadline = time.monotonic() + PATIENCE
    try:
        while not (checkpoint / SEAL).exists():
            assert launcher.poll() is None, launcher.stderr.read()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=ENDED_IN)


@pytest.mark.slow
def test_one_process_tells_and_one_writes(tmp_path):
    """One launch of the command line from its beginning to its end."""
    folder = RunFolder(tmp_path / "run")
    launcher = begin(folder, 6)
    output = launcher.communicate(timeout=PATIENCE)[1]
    assert launcher.returncode == 0, output[-4000:]
    assert folder.ended and weights(folder.path)
    assert output.count("step 6/6  loss") == 1
    assert len([line for line in folder.metrics() if "loss" in line and "step" in line]) == 6
