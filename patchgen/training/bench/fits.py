"""How many rows of a case fit: the largest of a ladder of sizes at which a step of training runs.

On a GPU what fits is what torch can allocate below the limit; of a tiny model on a CPU, what the backward pass keeps
is counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from patchgen.training.bench.entry import Contestant
from patchgen.training.bench.optimizers import optimizer_of
from patchgen.training.bench.result import Result
from patchgen.training.bench.saved_activations import saved_bytes
from patchgen.training.bench.setup import Entrant, Stage
from patchgen.training.bench.step import Trainer, products
from patchgen.training.rate.timing import timed

LIMIT = 130 * 2**30
TINY_ROWS = 5  # of a tiny anchor: what these keep is the limit of a tiny case
# Times the rows of the case.  Four looks find the largest of sixteen.
LADDER = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
TINY_LADDER = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


def largest(sizes: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """The largest size that fits, where whatever is smaller than one that fits does too; None where none does."""
    low, high = 0, len(sizes)  # all before `low` fit, none from `high` on
    while low < high:
        middle = (low + high) // 2
        if fits(sizes[middle]):
            low = middle + 1
        else:
            high = middle
    return sizes[low - 1] if low else None


def ladder(rows: int, *, tiny: bool) -> tuple[int, ...]:
    """The sizes that are tried, for a case of so many rows."""
    return tuple(sorted({max(1, int(rows * times)) for times in (TINY_LADDER if tiny else LADDER)}))


def rows_that_fit(stage: Stage, contestant: Contestant, limit: int | None = None) -> Result:
    """The rows, and times of a step with so many; "does not fit" where not even the fewest do."""
    entrant = stage.enter(contestant)
    limit = limit or (tiny_limit(stage) if stage.scale.tiny else LIMIT)
    attempt = _kept_below if stage.scale.tiny else _runs_below
    sizes = ladder(stage.case.shape.rows, tiny=stage.scale.tiny)
    found = largest(sizes, lambda rows: attempt(stage, _with_rows(stage, entrant, rows), limit))
    if found is None:
        return Result("does not fit")
    entrant = _with_rows(stage, entrant, found)
    seconds = () if stage.scale.tiny else (tuple(_seconds(stage, entrant)),)
    batch = entrant.batch
    return Result("ok", turns=seconds, tokens=batch.tokens, samples=len(batch.texts), rows=found)


def tiny_limit(stage: Stage) -> int:
    """Bytes: what some rows of the anchor keep."""
    anchor = replace(stage.case.contestant(stage.case.anchor), rows=TINY_ROWS)
    return _kept(stage, stage.enter(anchor))


def _with_rows(stage: Stage, entrant: Entrant, rows: int) -> Entrant:
    return replace(entrant, batch=stage.batch(replace(entrant.contestant, rows=rows)))


def _kept(stage: Stage, entrant: Entrant) -> int:
    stage.begin(entrant)
    with entrant.on():
        return saved_bytes(lambda: entrant.model(**entrant.batch.inputs), entrant.model)


def _kept_below(stage: Stage, entrant: Entrant, limit: int) -> bool:
    return _kept(stage, entrant) <= limit


def _runs_below(stage: Stage, entrant: Entrant, limit: int) -> bool:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    total = torch.cuda.get_device_properties(stage.scale.device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    try:
        _seconds(stage, entrant, times=1)
        return int(torch.cuda.max_memory_allocated()) <= limit
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        stage.forget_gradients(entrant)


def _seconds(stage: Stage, entrant: Entrant, times: int = 3) -> list[float]:
    """Of steps with the optimizer's states there, as they are from the second step on."""
    optimizer = optimizer_of(entrant.contestant.optimizer, stage.begin(entrant))
    trainer = Trainer(entrant, optimizer, stage.scale.device)
    with entrant.on(), products(entrant.contestant.precision):
        trainer.step()
        return timed(trainer.step, times, stage.scale.device)
