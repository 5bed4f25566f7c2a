"""x"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from patchgen.verify.variants import Plan, Variant, find_variant_at

TICK = 0.2  # seconds between two looks at a silent process
_KEPT = 20  # lines of stderr


class Child:
    """One process."""

    def __init__(
        self, command: Sequence[str], work: str, env: Mapping[str, str], *, aside: bool = False
    ) -> None:
        """Start it.  `aside`: an interrupt from the keyboard does not reach it."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false", **env},
            start_new_session=aside,
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
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._words = [*self._words[-_KEPT:], line]


def spent(pid: int) -> float | None:
    """Seconds of CPU time that a process has taken; None if the system does not report it."""
    try:
        behind_name = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
        user, system = int(behind_name[11]), int(behind_name[12])
    except (OSError, IndexError, ValueError):
        return None
    return (user + system) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds; 0 where the system does not report it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


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


SHORT = Plan(short=True)


def verify_variant(
    path: Path,
    plan: Plan = SHORT,
    *,
    device: str = "cpu",
    limits: Limits | None = None,
    here: bool = False,
) -> tuple[Result, ...]:
    """The result of each case of `plan` for the variant of a modular file or an output at `path`.

    The variant need not be in a gallery.  Its parent and its parts are read from the record in its
    project's lock, so it must have been converted.

    If a short plan gives no FAIL and no WARN, and a PASS with `seen` for the numbers, then a tiny
    model with random weights

    - loads the parent's checkpoint with no key missing or unexpected, and writes it back
      bit for bit;
    - ran what its parts are for (a part that does nothing is a FAIL);
    - gives the parent's outputs, loss and gradient of every parameter in training, in float64 and
      float32, with full rows and with rows padded at either side, within bounds at least ten times
      smaller than
    - the errors of its parts that fit this model.  Each of them is planted in it and seen.

    This does not cover other heads, eval mode, dropout, narrow dtypes, caches, generation or
    compilation.  `NONE` proves nothing: if a model cannot be built, all its results are `NONE`.

    The cases run in a child process within `limits` (60 s and 3 GB a case).  With `here` they run
    in this process without limits; projects' packages of the same name then replace each other in
    `sys.modules`, so verify one project at a time.

    Raises LookupError if no record has the file.
    """
    variant = find_variant_at(path)
    if not here:
        return verify([variant], Wanted(plan, device, limits or Limits()), jobs=1)
    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.cases.select import select_cases
    from patchgen.verify.parts.combine import find_part_checks

    try:
        todo = select_cases(variant, find_part_checks(variant.checked_parts), plan)
    except LookupError as error:  # as in a child
        return (Result(variant.name, "all", "FAIL", note=str(error)),)
    bench = CaseRunner(variant, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(bench.run(case) for case in todo)
