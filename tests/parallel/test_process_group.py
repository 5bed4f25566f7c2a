"""What keeps processes from joining a group, and which errors mean that a process is lost."""

from __future__ import annotations

import signal

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import distributed

from patchgen.syntax.errors import PatchgenError
from patchgen.training.parallel import process_group as meet
from patchgen.training.parallel.engine import Engine, Launch

TWO = Engine("ddp", Launch(2, 1, 1))
FSDP2 = Engine("fsdp2", Launch(2, 1, 1))
ALONE = Engine()


@pytest.fixture(autouse=True)
def launched(monkeypatch):
    """As torchrun starts a process, and no process is really met."""
    for name, value in {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
        "WORLD_SIZE": "2",
        "RANK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(distributed, "init_process_group", lambda *given, **rest: None)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_processes_that_can_meet():
    meet.join(TWO, "cpu")
    with pytest.raises(meet.PeerLost):
        signal.raise_signal(signal.SIGTERM)  # of a launcher that has lost another one
    signal.raise_signal(signal.SIGTERM)  # what is said then is said to its end


@pytest.mark.parametrize(
    ("engine", "device", "changed", "code", "message"),
    [
        (TWO, "cpu", ("is_available", lambda: False), "PG833", "without gloo"),
        (
            TWO,
            "cpu",
            ("is_backend_available", lambda name: name != "gloo"),
            "PG833",
            "without gloo",
        ),
        (
            TWO,
            "cuda",
            ("is_backend_available", lambda name: name != "nccl"),
            "PG833",
            "without nccl",
        ),
    ],
)
def test_what_torch_was_built_without(monkeypatch, engine, device, changed, code, message):
    monkeypatch.setattr(distributed, *changed)
    with pytest.raises(PatchgenError, match=f"{code}.*{message}"):
        meet.join(engine, device)


def test_a_cpu_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    meet.join(TWO, "cpu")  # DDP lays nothing out
    with pytest.raises(PatchgenError, match="PG833.*also with --use_cpu"):
        meet.join(FSDP2, "cpu")


def test_processes_that_do_not_come(monkeypatch):
    def late(*given, **rest):
        raise distributed.DistStoreError(
            "Timed out after 11 seconds waiting for clients. 1/2 clients joined."
        )

    monkeypatch.setattr(distributed, "init_process_group", late)
    with pytest.raises(PatchgenError, match="PG836.*do not connect: Timed out"):
        meet.join(TWO, "cpu")


def test_one_process_meets_nobody(monkeypatch):
    """And is none of a launcher's to Accelerate, which would put DDP around its model."""
    import os

    monkeypatch.setenv("WORLD_SIZE", "1")
    meet.join(ALONE, "cpu")
    assert "WORLD_SIZE" not in os.environ and "RANK" not in os.environ
    assert meet.gather(ALONE, 7) == (7,) and meet.first_process_first(ALONE, lambda: 7) == 7
    assert not meet.first_reports_same(ALONE, "text")
    meet.wait(ALONE)
    meet.leave(ALONE)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (meet.PeerLost("gone"), True),
        (distributed.DistNetworkError("Connection reset"), True),
        (
            RuntimeError(
                "[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:2718"
            ),
            True,
        ),
        (RuntimeError("NCCL error: remote process exited or there was a network error"), True),
        (RuntimeError("shape '[2, 3]' is invalid for input of size 5"), False),
        (ValueError("gloo"), False),
        (ZeroDivisionError(), False),
    ],
    ids=repr,
)
def test_which_errors_are_of_another_process(error, is_one):
    assert meet.is_peer_failure(error) == is_one
