"""Median and quartiles of a few values, and when two of them are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
