"""Runs one case: its entries take turns, and each result is reported at once.

A failure ends one entry only: memory that runs out, a missing package, a model that does not run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from patchgen.training.bench.case import Case
from patchgen.training.bench.competitors import Unavailable
from patchgen.training.bench.compiling import allow_many_models, forget_graphs
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.fits import find_rows_that_fit
from patchgen.training.bench.reference import Reference, compute_reference
from patchgen.training.bench.result import Result
from patchgen.training.bench.round import TINY_ROUNDS, Steps, first_round, next_round
from patchgen.training.bench.setup import CaseSetup, PreparedEntry, Scale, make_config
from patchgen.training.bench.texts import Batch
from patchgen.training.optimizers import NotInstalled
from patchgen.training.rate.flops import ForwardCost, count_forward_flops, count_pairs

EAGER_SECONDS, COMPILED_SECONDS, BUILD_SECONDS = 60.0, 150.0, 120.0
BROKEN = "CUDA error"  # all later calls on the device fail too
NO_KERNEL = "No available kernel"  # the forced SDPA backend does not support the input
Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Budget:
    """The end of the run on the monotonic clock, and the multiple of its own time for a case."""

    until: float
    times: float = 1.0

    def left(self) -> float:
        return self.until - time.monotonic()


@dataclass(slots=True)
class _CaseRun:
    """A case while it runs."""

    case: Case
    setup: CaseSetup
    say: Say
    budget: Budget
    prepared_entries: dict[str, PreparedEntry] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    references: dict[int | None, Reference] = field(default_factory=dict)

    def tell(self, name: str, result: Result) -> None:
        self.results[name] = result
        self.say(case=self.case.id, entry=name, result=result.as_json())


def run_case(
    case: Case, device: str, tiny: bool, skip: Collection[str], budget: Budget, say: Say
) -> None:
    """Run all entries except those in `skip`, and free all memory of the case.

    An error that breaks the device is raised: the process must end.
    """
    allow_many_models()
    budget = (
        budget
        if tiny
        else Budget(min(budget.until, time.monotonic() + budget.times * case.seconds))
    )
    say(begun=case.id, entry="", limit=BUILD_SECONDS)
    _run_entries(case, device, tiny, skip, budget, say)
    forget_graphs()
    _forget(device)
    say(case=case.id, done=True)


def _run_entries(
    case: Case, device: str, tiny: bool, skip: Collection[str], budget: Budget, say: Say
) -> None:
    running = _CaseRun(case, CaseSetup(case, Scale(device, tiny)), say, budget)
    say(case=case.id, about=_about(running))
    entries = [one for one in case.entries if one.name not in skip]
    rounds = TINY_ROUNDS if tiny else tuple(Steps(*numbers) for numbers in case.rounds)
    for entry in entries:
        _run_guarded(
            running, entry, partial(_find_rows if case.fits else _prepare, running, steps=rounds[0])
        )
    for number, steps in enumerate(() if case.fits else rounds[1:]):
        for entry in entries if number % 2 else reversed(entries):
            if running.results[entry.name].status == "ok":
                _run_guarded(running, entry, partial(_run_next_round, running, steps=steps))


def _about(running: _CaseRun) -> dict[str, Any]:
    """Return what holds for all entries."""
    case, setup = running.case, running.setup
    batch = setup.batch(Entry("about"))
    config = make_config(case, setup.scale.tiny)
    forward = count_forward_flops(setup.stock(case), config, case.shape.length)
    return {
        "texts": len(batch.texts),
        "tokens": batch.tokens,
        "places": batch.places,
        "labelled": batch.labelled,
        "work": 0.0 if forward is None else count_step_flops(case, forward, batch),
        "parameters": sum(parameter.numel() for parameter in setup.distinct.values()),
    }


def count_step_flops(case: Case, forward: ForwardCost, batch: Batch) -> float:
    """Return the FLOPs that a step over the batch needs."""
    pairs = count_pairs(batch.texts)
    return forward.step(
        tokens=batch.tokens, labelled=batch.labelled, pairs=pairs, causal=case.task == "causal"
    )


def _run_guarded(running: _CaseRun, entry: Entry, act: Callable[[Entry], Result]) -> None:
    """Run a round of the entry, and report its result."""
    former = running.results.get(entry.name)
    if running.budget.left() <= 0:
        if former is None:
            running.tell(entry.name, Result("no time"))
        else:
            running.tell(entry.name, replace(former, status="partial"))
        return
    limit = COMPILED_SECONDS if entry.compiled else EAGER_SECONDS
    running.say(begun=running.case.id, entry=entry.name, limit=limit)
    result = _result(act, entry)
    if result.status not in ("ok", "wrong"):
        running.prepared_entries.pop(entry.name, None)
        _forget(running.setup.scale.device)
    if (
        former is not None and result.status == "does not fit"
    ):  # it did before: what others left is in its way
        result = replace(
            former, status="partial", note="there was no memory left for a further round"
        )
    running.tell(entry.name, result)


def _result(act: Callable[[Entry], Result], entry: Entry) -> Result:
    """Return what `act` returns, or why it fails.  Raises what broke the device."""
    try:
        return act(entry)
    except (Unavailable, NotInstalled) as reason:
        return Result("unavailable", str(reason))
    except torch.OutOfMemoryError:
        return Result("does not fit")
    except Exception as error:
        if BROKEN in str(error):
            raise
        if NO_KERNEL in str(error):
            return Result("unavailable", "the backend that was forced does not take this")
        return Result("failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


def _find_rows(running: _CaseRun, entry: Entry, steps: Steps) -> Result:
    return find_rows_that_fit(running.setup, entry)


def _prepare(running: _CaseRun, entry: Entry, steps: Steps) -> Result:
    reference = _reference(running, entry.rows)
    began = time.perf_counter()
    prepared = running.setup.prepare(entry)
    running.prepared_entries[entry.name] = prepared
    result = first_round(running.setup, prepared, reference, steps)
    seconds = None if running.setup.scale.tiny else round(time.perf_counter() - began, 3)
    return replace(result, ready=seconds)


def _run_next_round(running: _CaseRun, entry: Entry, steps: Steps) -> Result:
    return next_round(
        running.setup, running.prepared_entries[entry.name], steps, running.results[entry.name]
    )


def _reference(running: _CaseRun, rows: int | None) -> Reference:
    """Return the reference of so many rows, computed once."""
    if rows not in running.references:
        running.references[rows] = compute_reference(running.setup, rows)
        found = running.references[rows]
        running.say(
            case=running.case.id, reference={"rows": rows, "loss": found.loss, "norm": found.norm}
        )
        _forget(running.setup.scale.device)
    return running.references[rows]


def _forget(device: str) -> None:
    """Free the memory of the last entry."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
