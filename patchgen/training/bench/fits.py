"""How many rows of a case fit: the largest of a ladder of sizes at which a step of training runs.

On a GPU what fits is what torch can allocate below the limit; of a tiny model on a CPU, what the backward pass keeps
is counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from patchgen.training.bench.entry import Entry
from patchgen.training.bench.result import Result
from patchgen.training.bench.saved_activations import saved_bytes
from patchgen.training.bench.setup import CaseSetup, PreparedEntry
from patchgen.training.bench.step import Trainer, products
from patchgen.training.bisection import find_last
from patchgen.training.optimizers import build_optimizer
from patchgen.training.rate.timing import time_runs

LIMIT = 130 * 2**30
TINY_ROWS = 5  # of a tiny anchor: what these keep is the limit of a tiny case
# Times the rows of the case.  Four looks find the largest of sixteen.
LADDER = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
TINY_LADDER = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


def largest(sizes: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Return the largest of the ascending sizes that fits; None where none does."""
    last = find_last(-1, len(sizes), lambda index: fits(sizes[index]))
    return None if last < 0 else sizes[last]


def ladder(rows: int, *, tiny: bool) -> tuple[int, ...]:
    """The sizes that are tried, for a case of so many rows."""
    return tuple(sorted({max(1, int(rows * times)) for times in (TINY_LADDER if tiny else LADDER)}))


def rows_that_fit(setup: CaseSetup, entry: Entry, limit: int | None = None) -> Result:
    """The rows, and times of a step with so many; "does not fit" where not even the fewest do."""
    prepared = setup.enter(entry)
    limit = limit or (tiny_limit(setup) if setup.scale.tiny else LIMIT)
    attempt = _kept_below if setup.scale.tiny else _runs_below
    sizes = ladder(setup.case.shape.rows, tiny=setup.scale.tiny)
    found = largest(sizes, lambda rows: attempt(setup, _with_rows(setup, prepared, rows), limit))
    if found is None:
        return Result("does not fit")
    prepared = _with_rows(setup, prepared, found)
    seconds = () if setup.scale.tiny else (tuple(_seconds(setup, prepared)),)
    batch = prepared.batch
    return Result("ok", turns=seconds, tokens=batch.tokens, samples=len(batch.texts), rows=found)


def tiny_limit(setup: CaseSetup) -> int:
    """Bytes: what some rows of the anchor keep."""
    baseline = replace(setup.case.entry(setup.case.baseline), rows=TINY_ROWS)
    return _kept(setup, setup.enter(baseline))


def _with_rows(setup: CaseSetup, prepared: PreparedEntry, rows: int) -> PreparedEntry:
    return replace(prepared, batch=setup.batch(replace(prepared.entry, rows=rows)))


def _kept(setup: CaseSetup, prepared: PreparedEntry) -> int:
    setup.begin(prepared)
    with prepared.on():
        return saved_bytes(lambda: prepared.model(**prepared.batch.inputs), prepared.model)


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
    """Of steps with the optimizer's states there, as they are from the second step on."""
    optimizer = build_optimizer(prepared.entry.optimizer, setup.begin(prepared))
    trainer = Trainer(prepared, optimizer, setup.scale.device)
    with prepared.on(), products(prepared.entry.precision):
        trainer.step()
        return time_runs(trainer.step, times, setup.scale.device)
