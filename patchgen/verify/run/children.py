"""Run the cases of variants in child processes, within limits of time and memory for each case.

A child gets its work on stdin and answers on stdout with one line of JSON each.  If it exceeds a
limit or dies, its current case is a FAIL, and another child goes on with the next case.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from patchgen import system
from patchgen.verify.report import (
    LinesRun,
    MutantResult,
    Result,
    describe,
    from_json,
    lines_from_json,
    make_left_out_result,
    make_lines_result,
    make_mutants_result,
)
from patchgen.verify.run.child import Work
from patchgen.verify.variants import Plan, Variant

SECONDS = 60  # a case, of the processor's time: on a busy machine it takes no more of it
WAITING = 10  # times as long by the clock, if all that it does is to wait
START = 180  # until the first case begins: importing torch and transformers on a cold, busy machine
MEGABYTES = 3072  # a child, at any time
COMMAND = (sys.executable, "-m", "patchgen.verify.run.child")
TICK = 0.2  # seconds between two looks at a silent process
_KEPT = 20  # lines of stderr

Progress = Callable[[Result], None]
# A variant, what is run of it now, how much of it has ended, and how many cases there are.
Began = Callable[[str, str, int, int], None]


class Child:
    """One process.  Between its answers there are ticks, to look at its time and its memory."""

    def __init__(self, command: Sequence[str], work: str, env: Mapping[str, str]) -> None:
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(
            command,
            **pipes,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false", **env},
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._words: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self._complaints = threading.Thread(target=self._hear, daemon=True)
        self._complaints.start()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(work)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once: the end of its answers says so

    def answers(self) -> Iterator[dict[str, Any] | None]:
        """Each answer, None at each tick, and last a "fault" if the process died or wrote garbage.

        The process is killed when the iteration ends.
        """
        try:
            while True:
                try:
                    line = self._lines.get(timeout=TICK)
                except queue.Empty:
                    yield None
                    continue
                if line is None:
                    yield {"fault": f"the process ended with code {self.process.wait()}"}
                    return
                if not line.endswith("\n"):
                    continue  # it was ended in the middle of an answer: its end says so
                try:
                    answer = json.loads(line)
                except ValueError:
                    yield {"fault": f"the process said what is no answer: {line.strip()[:100]}"}
                    return
                yield answer
        finally:
            self.end()

    def end(self) -> None:
        """Kill the process and wait for it."""
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """The last line that it wrote on stderr, as a suffix for a fault."""
        self._complaints.join(timeout=2)
        last = next((word.strip() for word in reversed(self._words) if word.strip()), "")
        return f": {last[:300]}" if last else ""

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def _hear(self) -> None:
        for line in self.process.stderr or ():
            self._words = [*self._words[-_KEPT:], line]


# --- variants


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
        # The models are tiny: a second thread waits longer than it computes.
        child = Child(COMMAND, work.as_text(), {"OMP_NUM_THREADS": "1"})
        for answer in _within(limits, child):
            todo = answer.get("todo", todo)
            if "begun" in answer:
                at = answer["begun"]
                began(variant, answer["begun"], len(work.skip), todo)
                mutant = MutantResult(**answer["mutant"]) if "mutant" in answer else None
            elif "result" in answer:
                result = from_json(answer["result"])
                work, at = work.with_result(result), None
                yield result
            elif "lines" in answer:
                lines, at = lines_from_json(answer["lines"]), None
            elif "fate" in answer:
                fates.append(MutantResult(**answer["fate"]))
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
            yield Result(variant, at or "all", "FAIL", note=f"{fault}{child.last_words()}")
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


def _within(limits: Limits, child: Child) -> Iterator[dict[str, Any]]:
    """The child's answers; last a "fault" if it exceeded its limits or ended badly."""
    pid, limit = child.process.pid, float(START)
    began, had = time.monotonic(), system.spent_by(pid)
    for answer in child.answers():
        passed, now = time.monotonic() - began, system.spent_by(pid)
        if now is None or had is None:  # the clock's time, where the system reports no other
            is_over = passed > limit
        else:
            is_over = now - had > limit or passed > max(limit, 1) * WAITING
        fault = f"took more than {limit:.0f} seconds" if is_over else ""
        if (
            not fault
            and answer is None
            and (used := system.resident_of(pid) / 2**20) > limits.megabytes
        ):
            fault = f"took {used:.0f} MB of memory, more than {limits.megabytes:.0f}"
        if fault:
            child.end()
            yield {"fault": fault}
            return
        if answer is not None:
            limit, began, had = limits.seconds, time.monotonic(), system.spent_by(pid)
            yield answer
