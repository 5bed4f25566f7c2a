"""Finds the largest batch that fits, by training steps with the longest rows.

A GPU reports a batch that does not fit as an error, and the size before it is taken.  A process
that asks too much of a CPU's memory is killed, so there a size is tried only if the growth so far
says that it fits.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.device_memory import GIB, free_memory, peak_memory, reset_peak_memory
from patchgen.training.loop.rows import Row
from patchgen.training.loop.switches import refuse

SHARE = 0.9  # of the free memory; steps vary, and the rest is for that
MOST = 4096
SOME = 8  # rows; batches up to this size are not tried first

Step = Callable[[Sequence[Row], int], None]  # trains on rows in batches of a size


@dataclass(frozen=True, slots=True)
class TriedBatch:
    """A batch size and the peak memory of its steps; None where it did not fit."""

    rows: int
    peak: int | None


def largest_batch(
    rows: Sequence[Row], step: Step, device: str, memory: float
) -> tuple[int, tuple[TriedBatch, ...]]:
    """Return the largest power of two of rows that fits, and what was tried.

    `memory` is the limit in GiB; 0 is what is free.  Raises PatchgenError PG816 where not even one
    row fits.
    """
    budget = _budget(device, memory)
    tried: list[TriedBatch] = []
    size = 1
    while size <= min(len(rows), MOST):
        expected = _expected(tried)
        if expected is not None and expected > budget:
            break
        tried.append(TriedBatch(size, _peak(rows, size, step, device)))
        peak = tried[-1].peak
        if peak is None or peak > budget:
            break
        size *= 2
    fitting = [one.rows for one in tried if one.peak is not None and one.peak <= budget]
    if not fitting:
        raise _too_large(1, tried[-1].peak, budget)
    return fitting[-1], tuple(tried)


def check_fit(rows: Sequence[Row], batch: int, step: Step, device: str, memory: float) -> None:
    """Raise PG816 where a batch would get this process killed, and PG813 for too few rows.

    The need is estimated from steps with one row and with eight.  Nothing is tried on a GPU: there
    a batch that does not fit is only an error.
    """
    if batch > len(rows):
        refuse("batch-size", batch, f"the text gives {len(rows)} rows")
    if device != "cpu" or batch <= SOME:
        return
    budget = _budget(device, memory)
    one, some = (_peak(rows, size, step, device) for size in (1, SOME))
    if one is None or some is None:
        raise _too_large(SOME, some, budget)
    expected = one + (batch - 1) * max(0, some - one) // (SOME - 1)
    if expected > budget:
        raise _too_large(batch, expected, budget)


def _budget(device: str, memory: float) -> int:
    """Return the bytes that may be in use, including those in use now."""
    if memory:
        return int(memory * GIB)
    free = free_memory(device) or 0
    return int(_in_use(device) + SHARE * free)


def _in_use(device: str) -> int:
    reset_peak_memory(device)
    return peak_memory(device)


def _expected(tried: Sequence[TriedBatch]) -> int | None:
    """Return the peak of twice the last batch, extrapolated linearly; None for too few trials."""
    if len(tried) < 2:
        return None
    before, last = tried[-2].peak, tried[-1].peak
    if before is None or last is None:
        return None
    return last + 2 * max(0, last - before)


def _peak(rows: Sequence[Row], size: int, step: Step, device: str) -> int | None:
    longest = sorted(rows, key=lambda row: len(row["input_ids"]), reverse=True)[:size]
    reset_peak_memory(device)
    try:
        with translate_out_of_memory():
            step(longest, size)
        return peak_memory(device)
    except OutOfMemory:
        return None
    finally:
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


class OutOfMemory(Exception):
    """There is too little memory."""


@contextlib.contextmanager
def translate_out_of_memory() -> Iterator[None]:
    """Raise OutOfMemory for whatever the device raises when its memory is used up."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        if "not enough memory" in str(error) or "out of memory" in str(
            error
        ):  # of torch's allocator for the CPU
            raise OutOfMemory(str(error)) from error
        raise


def _too_large(batch: int, peak: int | None, budget: int) -> PatchgenError:
    needs = f"needs {format_gib(peak)}, and" if peak is not None else "does not fit:"
    what = f"a batch of {batch} {needs} {format_gib(budget)} are available"
    return PatchgenError("PG816", Location("--batch-size"), what, smaller_step_hint(batch))


def smaller_step_hint(batch: int) -> str:
    """Return which switches make a step smaller."""
    smaller = "--batch-size auto, or " if batch > 1 else ""
    return f"{smaller}--checkpoint full, a smaller --length, --precision pure-bf16, --lora on"


def format_gib(size: Any) -> str:
    """Return a number of bytes in GiB."""
    return f"{size / GIB:.2f} GiB"
