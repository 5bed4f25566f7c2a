"""Finds the largest number of rows, of a ladder of sizes, with which a training step runs.

On a GPU a step must stay below a limit of allocated memory.  For a tiny model on a CPU, the saved
activations must stay below a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from patchgen.training.bench.entry import Entry
from patchgen.training.bench.result import Result
from patchgen.training.bench.setup import CaseSetup, PreparedEntry
from patchgen.training.bench.step import Trainer, products
from patchgen.training.bisection import find_last
from patchgen.training.optimizers import build_optimizer
from patchgen.training.rate.timing import time_runs
from patchgen.verify.observe.evidence import count_saved_bytes

LIMIT = 130 * 2**30
TINY_ROWS = 5  # what so many rows of the tiny baseline save is the limit of a tiny case
# Multiples of the case's rows.  Bisection finds the largest of sixteen in four trials.
LADDER = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
TINY_LADDER = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


def find_largest(sizes: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Return the largest of the ascending sizes that fits; None where none does."""
    last = find_last(-1, len(sizes), lambda index: fits(sizes[index]))
    return None if last < 0 else sizes[last]


def ladder(rows: int, *, tiny: bool) -> tuple[int, ...]:
    """Return the sizes to try for a case of so many rows."""
    return tuple(sorted({max(1, int(rows * times)) for times in (TINY_LADDER if tiny else LADDER)}))


def find_rows_that_fit(setup: CaseSetup, entry: Entry, limit: int | None = None) -> Result:
    """Return the rows that fit, and times of a step with them.

    The status is "does not fit" where not even the smallest size fits.
    """
    prepared = setup.prepare(entry)
    limit = limit or (tiny_limit(setup) if setup.scale.tiny else LIMIT)
    attempt = _kept_below if setup.scale.tiny else _runs_below
    sizes = ladder(setup.case.shape.rows, tiny=setup.scale.tiny)
    found = find_largest(
        sizes, lambda rows: attempt(setup, _with_rows(setup, prepared, rows), limit)
    )
    if found is None:
        return Result("does not fit")
    prepared = _with_rows(setup, prepared, found)
    seconds = () if setup.scale.tiny else (tuple(_seconds(setup, prepared)),)
    batch = prepared.batch
    return Result("ok", rounds=seconds, tokens=batch.tokens, samples=len(batch.texts), rows=found)


def tiny_limit(setup: CaseSetup) -> int:
    """Return the bytes that a few rows of the baseline save."""
    baseline = replace(setup.case.entry(setup.case.baseline), rows=TINY_ROWS)
    return _kept(setup, setup.prepare(baseline))


def _with_rows(setup: CaseSetup, prepared: PreparedEntry, rows: int) -> PreparedEntry:
    return replace(prepared, batch=setup.batch(replace(prepared.entry, rows=rows)))


def _kept(setup: CaseSetup, prepared: PreparedEntry) -> int:
    setup.restore_weights(prepared)
    with prepared.on():
        return count_saved_bytes(lambda: prepared.model(**prepared.batch.inputs), prepared.model)


def _kept_below(setup: CaseSetup, prepared: PreparedEntry, limit: int) -> bool:
    return _kept(setup, prepared) <= limit


def _runs_below(setup: CaseSetup, prepared: PreparedEntry, limit: int) -> bool:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    total = torch.cuda.get_device_properties(setup.scale.device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    try:
        _seconds(setup, prepared, times=1)
        return int(torch.cuda.max_memory_allocated()) <= limit
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        setup.forget_gradients(prepared)


def _seconds(setup: CaseSetup, prepared: PreparedEntry, times: int = 3) -> list[float]:
    """Return the seconds of steps after the first, when the optimizer's states exist."""
    optimizer = build_optimizer(prepared.entry.optimizer, setup.restore_weights(prepared))
    trainer = Trainer(prepared, optimizer, setup.scale.device)
    with prepared.on(), products(prepared.entry.precision):
        trainer.step()
        return time_runs(trainer.step, times, setup.scale.device)
