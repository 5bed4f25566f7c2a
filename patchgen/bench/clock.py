"""Seconds of steps: by CUDA events, which no step waits for, or by the wall clock where there is no GPU.

Times of a wall clock tell that something ran; they are never a result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Of several times, in their unit."""

    low: float
    median: float
    high: float

    def apart_from(self, other: Quartiles) -> bool:
        """Whether the interquartile ranges do not overlap."""
        return self.high < other.low or other.high < self.low


def quartiles(values: Sequence[float]) -> Quartiles:
    """By linear interpolation between the sorted values; ValueError where there are none."""
    if not values:
        raise ValueError("quartiles of nothing")
    ordered = sorted(values)

    def at(part: float) -> float:
        place = part * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Quartiles(at(0.25), at(0.5), at(0.75))


def timed(run: Callable[[], Any], times: int, device: str) -> list[float]:
    """The seconds of each of so many runs, one after the other."""
    return _by_events(run, times) if device.startswith("cuda") else _by_wall(run, times)


def _by_events(run: Callable[[], Any], times: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in zip(marks, marks[1:], strict=False)]


def _by_wall(run: Callable[[], Any], times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return seconds
