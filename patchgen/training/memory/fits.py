"""Finds the largest batch that fits, by the predicted peak."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.bisection import find_last
from patchgen.training.device_memory import free_memory
from patchgen.training.memory.figures import spread, summarize
from patchgen.training.memory.report import MOST, format_size
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Target, setup_error

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kMGT]i?|)B?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the bytes that "24GB", "80GiB" or a number means; raise PG825 for other text."""
    found = _SIZE.fullmatch(text)
    units = {name.lower(): count for name, count in _UNITS.items()}
    count = int(float(found["number"]) * units[found["unit"].lower()]) if found else 0
    if count <= 0:
        raise setup_error(f"--card {text}", "is no size", "write 24GB, or 80GiB")
    return count


def largest_batch(target: Target, setup: Setup, room: int) -> int:
    """Return the largest batch whose step fits into `room` bytes.

    Raises PatchgenError PG823 where not even one row fits.
    """

    @functools.cache
    def peaks(batch: int) -> tuple[int, ...]:
        trace = spread(predict_step(target, replace(setup, batch=batch)))
        return tuple(most for _, most in summarize(trace).peaks)

    least = max(peaks(1))
    if least > room:
        missing = format_size(least - room)
        what = f"a batch of 1 takes {format_size(least)}, {missing} more than there is"
        raise PatchgenError("PG823", Location(target.name), what, _savings(setup))
    return _last_within(peaks, room)


def _last_within(peaks: Callable[[int], tuple[int, ...]], room: int) -> int:
    """Return the largest batch up to `MOST` within `room`, of which 1 is.

    `peaks` gives the peak of each phase, which grows almost linearly with the batch, or not at all.
    """

    def fits(batch: int) -> bool:
        return max(peaks(batch)) <= room

    def guess(low: int, high: int) -> Iterator[int]:
        crossing = _crossing(peaks, low, high, room)
        yield crossing
        # The neighbour settles the answer where the crossing was exact.
        yield crossing + 1 if low <= crossing < high and fits(crossing) else crossing - 1

    return find_last(1, MOST + 1, fits, guess, ceiling=MOST)


def _crossing(peaks: Callable[[int], tuple[int, ...]], low: int, high: int, room: int) -> int:
    """Return the batch at which a phase needs `room`, if all grow linearly as they do so far."""
    end = high if high <= MOST else max(low, 2)
    pairs = zip(peaks(end), peaks(end - 1), strict=True)
    guesses = [end + (room - most) // (most - before) for most, before in pairs if most > before]
    return min(high - 1, max(low, min(guesses, default=2 * low)))


def _savings(setup: Setup) -> str:
    ways = [
        ("--precision pure-bf16", setup.precision != "pure-bf16"),
        ("--checkpoint full", setup.checkpoint == "none"),
        ("--optimizer adafactor or sgd", setup.optimizer.startswith("adamw")),
        ("a shorter --length", True),
    ]
    return f"these need less memory: {', '.join(way for way, is_open in ways if is_open)}"


def check_device(device: str) -> None:
    """Raise PatchgenError PG825 where this machine does not have the device."""
    if device == "cuda" and not torch.cuda.is_available():
        raise setup_error(
            "--measure",
            "torch finds no CUDA device here",
            "--device cpu measures on this machine's CPU",
        )


def check_free_memory(target: Target, needed: int, device: str) -> None:
    """Raise PatchgenError PG823 where this machine has less than `needed` bytes free."""
    free = free_memory(device)
    if free is not None and needed > free:
        what = (
            f"the step takes {format_size(needed)}, and this machine has {format_size(free)} free"
        )
        raise PatchgenError(
            "PG823", Location(target.name), what, "predict it without --measure, or make it smaller"
        )
