"""The largest number with a property, found with few trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def find_last(
    low: int,
    high: int,
    holds: Callable[[int], bool],
    guesses: Callable[[int, int], Iterable[int]] = lambda low, high: (),
    ceiling: int | None = None,
) -> int:
    """Return the largest number below `high` for which `holds`, of which `low` is known to be one.

    All numbers up to it hold, and none above it.  Between trials, `guesses(low, high)` names
    numbers to try before the middle; those outside the range are skipped.  While nothing is known
    to fail (`high` is above `ceiling`), the last step doubles `low` instead.
    """
    while high - low > 1:
        for guess in guesses(low, high):
            if low < guess < high:
                low, high = (guess, high) if holds(guess) else (low, guess)
        if high - low <= 1:
            break
        if ceiling is not None and high > ceiling:
            middle = min(2 * low, ceiling)
        else:
            middle = (low + high) // 2
        if low < middle < high:
            low, high = (middle, high) if holds(middle) else (low, middle)
    return low
