"""Run the cases of variants in child processes, within limits of time and memory for each case.

If a child exceeds a limit or dies, its current case is a FAIL, and another child goes on with the
next case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from patchgen import system
from patchgen.verify.report import (
    LinesRun,
    MutantResult,
    Result,
    describe,
    make_left_out_result,
    make_lines_result,
    make_mutants_result,
)
from patchgen.verify.run.child import Work, do_work
from patchgen.verify.variants import Plan, Variant

SECONDS = 60  # a case, of the processor's time: on a busy machine it takes no more of it
WAITING = 10  # times as long by the clock, if all that it does is to wait
START = 180  # until the first case begins: importing torch and transformers on a cold, busy machine
MEGABYTES = 3072  # a child, at any time
ENDING = 5  # until a child has ended that has nothing more to do
TICK = 0.2  # seconds between two looks at a silent process
_SPAWN = get_context("spawn")  # a forked child would share what torch has initialised

Progress = Callable[[Result], None]
# A variant, what is run of it now, how much of it has ended, and how many cases there are.
Began = Callable[[str, str, int, int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one case may take."""

    seconds: float = SECONDS
    megabytes: float = MEGABYTES


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run of every variant."""

    plan: Plan = Plan()
    device: str = "cpu"
    limits: Limits = Limits()


def verify(
    variants: Sequence[Variant],
    wanted: Wanted,
    jobs: int = 0,
    progress: Progress = lambda result: None,
    began: Began = lambda variant, case, done, todo: None,
) -> tuple[Result, ...]:
    """The results of every case, in the order of the variants.

    `progress` gets each result as it comes, `began` is told of each case as it begins.  `jobs`
    children work at once.  0: one for each processor, or one on an accelerator.
    """
    several = jobs or (system.processors() if wanted.device == "cpu" else 1)
    lock = threading.Lock()

    def one(variant: Variant) -> list[Result]:
        found = []
        for result in run_work(Work(variant, wanted.plan, wanted.device), wanted.limits, began):
            found.append(result)
            with lock:
                progress(result)
        return found

    with ThreadPoolExecutor(max(1, min(several, len(variants)))) as pool:
        return tuple(result for found in pool.map(one, variants) for result in found)


def run_work(
    work: Work, limits: Limits, began: Began = lambda variant, case, done, todo: None
) -> Iterator[Result]:
    """Each result of `work` as it comes, from as many children as it takes."""
    variant, todo, fates = work.variant.name, 0, list[MutantResult]()
    lines: LinesRun | None = None
    yield from describe(work.variant)
    while True:
        at: str | None = None
        mutant: MutantResult | None = None
        fault = "the process died"
        for answer in _answers(work, limits):
            todo = answer.get("todo", todo)
            if "begun" in answer:
                at = answer["begun"]
                began(variant, answer["begun"], len(work.skip), todo)
                mutant = answer.get("mutant")
            elif "result" in answer:
                work, at = work.with_result(answer["result"]), None
                yield answer["result"]
            elif "lines" in answer:
                lines, at = answer["lines"], None
            elif "fate" in answer:
                fates.append(answer["fate"])
                work, at, mutant = work.without(fates[-1].name), None, None
            elif "left" in answer:
                work, at, mutant = work.without(answer["left"]), None, None
            elif "refused" in answer:
                yield Result(variant, "all", "FAIL", note=answer["refused"])
                return
            elif "fault" in answer:
                fault = answer["fault"]
            elif "done" in answer:
                yield from _of_mutation(variant, lines, fates)
                if answer["left_out"] or answer["unplanted"]:
                    yield make_left_out_result(variant, answer["left_out"], answer["unplanted"])
                return
        if mutant is not None:
            fates.append(replace(mutant, outcome="crashed", note=fault))
        elif at is None or not at.startswith("lines of "):
            yield Result(variant, at or "all", "FAIL", note=fault)
        if at is None:
            return  # it would die again
        work = work.without(at)


def _of_mutation(
    variant: str, lines: LinesRun | None, fates: Sequence[MutantResult]
) -> Iterator[Result]:
    if lines is not None:
        yield make_lines_result(variant, lines)
    if fates:
        yield make_mutants_result(variant, tuple(fates), lines)


def _answers(work: Work, limits: Limits) -> Iterator[dict[str, Any]]:
    """What a child answers; last a "fault" if it exceeded its limits, died or could not work."""
    ours, theirs = _SPAWN.Pipe(duplex=False)
    child = _SPAWN.Process(target=do_work, args=(work, theirs), daemon=True)
    child.start()
    theirs.close()  # else nobody would see that the child has closed it
    assert child.pid is not None
    pid, limit = child.pid, float(START)
    began, had = time.monotonic(), system.spent_by(pid)
    try:
        while True:
            is_silent = not ours.poll(TICK)
            passed, now = time.monotonic() - began, system.spent_by(pid)
            if now is None or had is None:  # the clock's time, where the system reports no other
                is_over = passed > limit
            else:
                is_over = now - had > limit or passed > max(limit, 1) * WAITING
            megabytes = system.resident_of(pid) / 2**20 if is_silent else 0.0
            if is_over or megabytes > limits.megabytes:
                what = f"{megabytes:.0f} MB of memory, more than {limits.megabytes:.0f}"
                child.kill()
                yield {"fault": f"took {f'more than {limit:.0f} seconds' if is_over else what}"}
                return
            if not is_silent:
                yield ours.recv()
                limit, began, had = limits.seconds, time.monotonic(), system.spent_by(pid)
    except (EOFError, OSError):
        child.join()
        yield {"fault": f"the process ended with code {child.exitcode}"}
    finally:
        ours.close()
        child.join(ENDING)
        child.kill()
        child.join()
