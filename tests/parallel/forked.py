"""Processes of one group as torchrun makes them, but forked, so that slow imports run once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from unittest.mock import patch

from torch import multiprocessing


def forked(run: Callable[[], None], processes: int = 2) -> None:
    """Call `run` in each process; if one fails, end the others and raise its error."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    # Of the members alone: a test that comes later would wait for the others.
    with patch.dict(os.environ, group):
        multiprocessing.start_processes(_member, (run,), nprocs=processes, start_method="fork")


def _member(rank: int, run: Callable[[], None]) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    run()
