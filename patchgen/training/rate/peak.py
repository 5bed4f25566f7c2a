"""FLOP/s of a device in matrix products, measured on random data.

Steps are timed by CUDA events, which do not make them wait, or by the wall clock without a GPU.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

SIZES = {"cuda": 8192, "cpu": 768}  # of a product; on CUDA large enough to be compute-bound
WARM, TIMES = 3, 20


@contextmanager
def allow_tf32(wanted: bool) -> Iterator[None]:
    """Compute float32 products with TF32 if `wanted`, else in full precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if wanted else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def product_flops(device: str, dtype: str, *, tf32: bool) -> float:
    """Return the median FLOP/s of a product of two random square matrices.

    It is measured once in a process, so that the runs of a search are compared with one number.  On
    random data a GPU uses more power than on ones or zeros, and its clock is lower, as in training.
    """
    size = SIZES[device.partition(":")[0]]
    left, right = torch.randn(2, size, size, device=device, dtype=getattr(torch, dtype))
    with allow_tf32(tf32):
        time_runs(lambda: left @ right, WARM, device)
        seconds = time_runs(lambda: left @ right, TIMES, device)
    return 2 * size**3 / statistics.median(seconds)


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
    return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(marks)]


def _by_wall(run: Callable[[], Any], times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return seconds
