"""Times steps by CUDA events, or by the wall clock where there is no GPU.

CUDA events do not make a step wait.  Wall-clock times only show that something ran; they are never
published as results.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def time_runs(run: Callable[[], Any], times: int, device: str) -> list[float]:
    """Return the seconds of each of so many consecutive runs."""
    return _by_events(run, times) if device.startswith("cuda") else _by_wall(run, times)


def _by_events(run: Callable[[], Any], times: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return [
        before.elapsed_time(after) / 1e3 for before, after in zip(marks, marks[1:], strict=False)
    ]


def _by_wall(run: Callable[[], Any], times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return seconds
