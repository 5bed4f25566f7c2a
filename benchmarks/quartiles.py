"""Median and quartiles of measured times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The lower quartile, the median and the upper quartile, in the unit of the values."""

    low: float
    median: float
    high: float

    def differs_from(self, other: Quartiles) -> bool:
        """Return whether the interquartile ranges do not overlap."""
        return self.high < other.low or other.high < self.low


def quartiles(values: Sequence[float]) -> Quartiles:
    """Interpolate linearly between the sorted values; ValueError for no values."""
    if not values:
        raise ValueError("no values to take quartiles of")
    if len(values) == 1:
        return Quartiles(values[0], values[0], values[0])
    return Quartiles(*statistics.quantiles(values, n=4, method="inclusive"))
