"""Finds the largest batch that fits, by the predicted peak."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace

import torch

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.device_memory import free_memory
from patchgen.training.memory.figures import spread, summarize
from patchgen.training.memory.report import MOST, format_size
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Target, setup_error

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgt]i?|)b?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the bytes that "24GB", "80GiB" or a number means; raise PG825 for other text."""
    size = _SIZE.fullmatch(text)
    count = int(float(size["number"]) * _UNITS[size["unit"].lower()]) if size else 0
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
        return tuple(summarize(trace).peaks.values())

    least = max(peaks(1))
    if least > room:
        missing = format_size(least - room)
        what = f"a batch of 1 takes {format_size(least)}, {missing} more than there is"
        ways = "--precision pure-bf16, --checkpoint full, --optimizer adafactor, a shorter --length"
        raise PatchgenError("PG823", Location(target.name), what, f"these need less memory: {ways}")
    return last_within(peaks, room)


def last_within(peaks: Callable[[int], tuple[int, ...]], room: int) -> int:
    """Return the largest batch up to `MOST` within `room`, of which 1 is.

    `peaks` gives the peak of each phase.  It grows almost linearly with the batch, or not at all,
    so a line through two batches tells where to look, and a look tells better lines.
    """
    fitting = 1
    too_large = MOST + 1  # or more than is tried
    while too_large - fitting > 1:
        reached = _reach(peaks, fitting, too_large, room)
        guess = min(too_large - 1, MOST, max(fitting + 1, reached))
        # Where the line leads to, the next one, and the middle.
        for batch in (guess, min(guess + 1, too_large - 1), (fitting + too_large) // 2):
            if not fitting < batch < too_large:
                continue
            if max(peaks(batch)) <= room:
                fitting = batch
            else:
                too_large = batch
    return fitting


def _reach(peaks: Callable[[int], tuple[int, ...]], fitting: int, too_large: int, room: int) -> int:
    """Return the batch at which the first phase fills `room`, by a line through two batches."""
    small = fitting
    large = too_large
    if too_large > MOST:
        small = max(1, fitting // 2)
        large = max(2, fitting)
    reached = []
    for small_peak, large_peak in zip(peaks(small), peaks(large), strict=True):
        rise = large_peak - small_peak
        if rise > 0:
            more_rows = (room - small_peak) * (large - small) // rise
            reached.append(small + more_rows)
    return min(reached, default=2 * fitting)


def check_device(device: str) -> None:
    """Raise PatchgenError PG825 where this machine does not have the device."""
    if device == "cuda" and not torch.cuda.is_available():
        hint = "--device cpu measures on this machine's CPU"
        raise setup_error("--measure", "torch finds no CUDA device here", hint)


def check_free_memory(target: Target, needed: int, device: str) -> None:
    """Raise PatchgenError PG823 where this machine has less than `needed` bytes free."""
    free = free_memory(device)
    if free is not None and needed > free:
        what = f"the step takes {format_size(needed)}, and {format_size(free)} are free here"
        hint = "predict it without --measure, or make it smaller"
        raise PatchgenError("PG823", Location(target.name), what, hint)
