"""What batch fits: training steps are really made, with the longest rows, in ever larger batches.

On a GPU a batch that does not fit fails, and the one before it is taken.  A process that asks a CPU for too much is
killed; so there the next batch is tried only where the growth so far says that it fits.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from patchgen.errors import Location, PatchgenError
from patchgen.training.device_memory import GIB, free_memory, peak_memory, reset_peak_memory
from patchgen.training.loop.rows import Row
from patchgen.training.loop.switches import refuse

SHARE = 0.9  # of free memory that a step may fill: the rest is for what varies
MOST = 4096
SOME = 8  # rows: no batch of so few is tried before it is trained with

Step = Callable[[Sequence[Row], int], None]  # makes steps with rows, so many at once


@dataclass(frozen=True, slots=True)
class TriedBatch:
    """A batch and the most memory that was in use while steps were made with it; None where there was too little."""

    rows: int
    peak: int | None


def largest_batch(
    rows: Sequence[Row], step: Step, device: str, memory: float
) -> tuple[int, tuple[TriedBatch, ...]]:
    """The largest power of two of rows that fits into `memory` GiB (0: what is free), and what was tried.

    No larger than there are rows.  Raises PatchgenError PG816 where not even one fits.
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
    """PG816 where a batch would get this process killed: judged by steps with one row and with some.

    On a GPU nothing is tried: there a batch that does not fit is an error and no more.  PG813 where there are not as
    many rows.
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
    """Bytes that may be in use, with what is in use already."""
    if memory:
        return int(memory * GIB)
    free = free_memory(device) or 0
    return int(_in_use(device) + SHARE * free)


def _in_use(device: str) -> int:
    reset_peak_memory(device)
    return peak_memory(device)


def _expected(tried: Sequence[TriedBatch]) -> int | None:
    """The peak of twice the last batch, were memory to grow evenly; None where nothing is known yet."""
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
    """There was too little memory."""


@contextlib.contextmanager
def translate_out_of_memory() -> Iterator[None]:
    """Whatever the device says when it has no memory left becomes NoMemory."""
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
    what = f"a batch of {batch} {needs} {format_gib(budget)} can be had"
    return PatchgenError("PG816", Location("--batch-size"), what, smaller_step_hint(batch))


def smaller_step_hint(batch: int) -> str:
    """What makes a step smaller."""
    smaller = "--batch-size auto, or " if batch > 1 else ""
    return f"{smaller}--checkpoint full, a smaller --length, --precision pure-bf16, --lora on"


def format_gib(size: Any) -> str:
    """Bytes for people."""
    return f"{size / GIB:.2f} GiB"
