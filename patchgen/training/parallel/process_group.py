"""The process group of a run: joining it, waiting, sharing values, and losing a process.

Every process calls each function at the same point of the run.  One process alone never waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
from torch import distributed

from patchgen.syntax.errors import Location, PatchgenError, describe_error, one_line
from patchgen.training.parallel.engine import LAUNCHED, Engine

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
LAST_MESSAGE = "patchgen/last-message"  # the key of the first process's last message
SETTLED = 0.2  # seconds
SOON = 5  # seconds that another process waits for that message
PATIENCE = 600  # seconds that a process waits for the others, by default
# What gloo and NCCL report where the other end of a connection is lost.
GONE = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Timed out waiting",
    "Broken pipe",
)

_Value = TypeVar("_Value")


class PeerLost(Exception):
    """Another process of the run has ended, or does not answer."""


def join(engine: Engine, device: str, seconds: int = PATIENCE) -> None:
    """Join the process group, in which a process waits so many seconds for the others.

    Raises PatchgenError PG833 where this torch cannot, and PG836 where other processes do not join.
    """
    if not engine.is_distributed:
        for name in LAUNCHED:  # Accelerate would put DDP around the model of its one process
            os.environ.pop(name, None)
        return
    if distributed.is_available() and distributed.is_initialized():
        return
    where = Location(f"--engine {engine.name}")
    if not (distributed.is_available() and distributed.is_backend_available(BACKENDS[device])):
        what = f"this torch was built without {BACKENDS[device]}, which {device} needs"
        raise PatchgenError("PG833", where, what)
    if device == "cpu" and engine.shards_weights and torch.accelerator.is_available():
        what = "transformers lays weights out on the accelerator that it finds, also with --use_cpu"
        raise PatchgenError("PG833", where, what, "CUDA_VISIBLE_DEVICES= hides it")
    try:
        if device == "cuda":
            torch.cuda.set_device(engine.launch.local_rank)
        distributed.init_process_group(
            BACKENDS[device],
            timeout=timedelta(seconds=seconds),
            device_id=torch.device("cuda", engine.launch.local_rank) if device == "cuda" else None,
        )
    except (RuntimeError, ValueError) as error:
        what = f"the processes do not connect: {one_line(error)}"
        raise PatchgenError("PG836", where, what) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _ended_by_launcher)


def _ended_by_launcher(number: int, frame: Any) -> NoReturn:
    """Raise PeerLost: a launcher that has lost one process sends SIGTERM to the others."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # let the message be written
    raise PeerLost("the launcher ended this process, as it does where another one is gone")


def ignore_termination(engine: Engine) -> None:
    """Let an error message be written to its end, whatever the launcher sends."""
    if engine.is_distributed and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def leave(engine: Engine) -> None:
    """Leave the process group; not to be called where another process is lost."""
    if engine.is_distributed and distributed.is_initialized():
        distributed.destroy_process_group()
        # Threads of gloo free the last tensors a little later, and need Python for it.  If Python
        # is finalized meanwhile, the process ends with SIGABRT.
        time.sleep(SETTLED)


def wait(engine: Engine) -> None:
    """Wait until every process is here."""
    if engine.is_distributed:
        distributed.barrier()


def gather(engine: Engine, value: _Value) -> tuple[_Value, ...]:
    """Return the value of each process, by rank."""
    if not engine.is_distributed:
        return (value,)
    values: list[Any] = [None] * engine.launch.world
    distributed.all_gather_object(values, value)
    return tuple(values)


def first_process_first(engine: Engine, work: Callable[[], _Value]) -> _Value:
    """Do the work on the first process, and then on the others, which find what it wrote.

    Where it fails on the first, its error is raised on all: the others wait for it.
    """
    if not engine.is_distributed:
        return work()
    outcome: list[Any] = [None]
    if not engine.is_first:
        distributed.broadcast_object_list(outcome, src=0)
        if outcome[0] is not None:
            raise outcome[0]
        return work()
    try:
        return work()
    except Exception as error:
        what = f"process 0 has failed: {describe_error(error)}"
        outcome = [error if isinstance(error, PatchgenError) else PeerLost(what)]
        raise
    finally:
        distributed.broadcast_object_list(outcome, src=0)


def is_peer_failure(error: BaseException) -> bool:
    """Return whether the error says that another process is lost."""
    if isinstance(error, PeerLost | distributed.DistError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in GONE)


def first_reports_same(engine: Engine, text: str) -> bool:
    """Return whether the first process reports the same text, so that it is printed once."""
    if not (engine.is_distributed and distributed.is_available() and distributed.is_initialized()):
        return False
    store = distributed.distributed_c10d._get_default_store()
    with contextlib.suppress(RuntimeError, ValueError):
        if engine.is_first:
            store.set(LAST_MESSAGE, text)
            return False
        store.wait([LAST_MESSAGE], timedelta(seconds=SOON))
        return bool(store.get(LAST_MESSAGE).decode() == text)
    return False
