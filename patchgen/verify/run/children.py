"""Run the cases of variants in child processes, within limits of time and memory for each case.

If a child exceeds a limit or dies, its current case is a FAIL, and another child goes on with the
next case.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from patchgen.verify.mutation.mutant_result import LinesRun, MutantResult, lines_from_json
from patchgen.verify.report.result import (
    Result,
    describe,
    from_json,
    make_left_out_result,
    make_lines_result,
    make_mutants_result,
)
from patchgen.verify.run.child import Work
from patchgen.verify.run.process import Child, resident, spent
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant

SECONDS = 60  # a case, of the processor's time: on a busy machine it takes no more of it
WAITING = 10  # times as long by the clock, if all that it does is to wait
START = 180  # until the first case begins: importing torch and transformers on a cold, busy machine
MEGABYTES = 3072  # a child, at any time
COMMAND = (sys.executable, "-m", "patchgen.verify.run.child")

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
    find_variants: Sequence[Variant],
    wanted: Wanted,
    jobs: int = 0,
    progress: Progress = lambda result: None,
    began: Began = lambda variant, case, done, todo: None,
) -> tuple[Result, ...]:
    """The results of every case, in the order of the variants.

    `progress` gets each result as it comes, `began` is told of each case as it begins.  `jobs`
    children work at once.  0: one for each processor, or one on an accelerator.
    """
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    several = jobs or (processors if wanted.device == "cpu" else 1)
    several = max(1, min(several, len(find_variants)))
    lock = threading.Lock()

    def one(variant: Variant) -> list[Result]:
        found = []
        for result in run_work(Work(variant, wanted.plan, wanted.device), wanted.limits, began):
            found.append(result)
            with lock:
                progress(result)
        return found

    with ThreadPoolExecutor(several) as pool:
        return tuple(result for found in pool.map(one, find_variants) for result in found)


def run_work(
    work: Work, limits: Limits, began: Began = lambda variant, case, done, todo: None
) -> Iterator[Result]:
    """Each result of `work` as it comes, from as many children as it takes."""
    found = _Found(work.variant.name)
    yield from describe(work.variant)
    todo = 0
    while True:
        at: str | None = None
        mutant: MutantResult | None = None
        finished, fault = False, "the process died"
        # The models are tiny: a second thread waits longer than it computes.
        child = Child(COMMAND, work.as_text(), {"OMP_NUM_THREADS": "1"})
        for answer in _within(limits, child):
            todo = answer.get("todo", todo)
            if "begun" in answer:
                at = answer["begun"]
                began(work.variant.name, answer["begun"], len(work.skip), todo)
                mutant = MutantResult(**answer["mutant"]) if "mutant" in answer else None
            elif "result" in answer:
                result = from_json(answer["result"])
                work, at = work.with_result(result), None
                yield result
            elif "lines" in answer:
                found.lines, at = lines_from_json(answer["lines"]), None
            elif "fate" in answer:
                found.fates.append(MutantResult(**answer["fate"]))
                work, at, mutant = work.without(found.fates[-1].name), None, None
            elif "refused" in answer:
                yield Result(work.variant.name, "all", "FAIL", note=answer["refused"])
                finished = True
            elif "fault" in answer:
                fault = answer["fault"]
            elif "done" in answer:
                finished = True
                found.left_out, found.unplanted = answer["left_out"], answer["unplanted"]
        if finished:
            yield from found.results()
            return
        if mutant is not None:
            found.fates.append(replace(mutant, outcome="crashed", note=fault))
        elif at is None or not at.startswith("lines of "):
            yield Result(
                work.variant.name, at or "all", "FAIL", note=f"{fault}{child.last_words()}"
            )
        if at is None:
            return  # it would die again
        work = work.without(at)


@dataclass
class _Found:
    """What is known of the changed lines of one variant, perhaps from several children."""

    variant: str
    lines: LinesRun | None = None
    fates: list[MutantResult] = field(default_factory=list)
    left_out: int = 0
    unplanted: int = 0

    def results(self) -> Iterator[Result]:
        if self.lines is not None:
            yield make_lines_result(self.variant, self.lines)
        if self.fates:
            yield make_mutants_result(self.variant, tuple(self.fates), self.lines)
        if self.left_out or self.unplanted:
            yield make_left_out_result(self.variant, self.left_out, self.unplanted)


def _within(limits: Limits, child: Child) -> Iterator[dict[str, Any]]:
    """The child's answers; last a "fault" if it exceeded its limits or ended badly."""
    limit, clock = float(START), _Clock(child.process.pid)
    for answer in child.answers():
        fault = ""
        if clock.shows_more_than(limit):
            fault = f"took more than {limit:.0f} seconds"
        elif answer is None and (used := resident(child.process.pid)) > limits.megabytes:
            fault = f"took {used:.0f} MB of memory, more than {limits.megabytes:.0f}"
        if fault:
            child.end()
            yield {"fault": fault}
            return
        if answer is not None:
            limit, clock = limits.seconds, _Clock(child.process.pid)
            yield answer


class _Clock:
    """The time that a process takes: CPU time if the system reports it, else the clock's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.began, self.had = time.monotonic(), spent(pid)

    def shows_more_than(self, seconds: float) -> bool:
        passed, now = time.monotonic() - self.began, spent(self.pid)
        if now is None or self.had is None:
            return passed > seconds
        return now - self.had > seconds or passed > max(seconds, 1) * WAITING
