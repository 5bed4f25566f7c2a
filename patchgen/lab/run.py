"""Runs the cases of variants in child processes, within limits of time and memory for each case.

A child that exceeds one, or dies, is a FAIL for the case that it was at; the next one goes on after it.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.lab.child import Work
from patchgen.lab.plan import Plan
from patchgen.lab.result import Result, from_json
from patchgen.lab.subject import Subject

SECONDS = 60  # a case
START = 180  # until the first case begins: importing torch and transformers on a cold, busy machine
MEGABYTES = 3072  # a child, at any time
_TICK = 0.2

Progress = Callable[[Result], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one case may take."""

    seconds: float = SECONDS
    megabytes: float = MEGABYTES


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be run, of every variant."""

    plan: Plan = Plan()
    device: str = "cpu"
    limits: Limits = Limits()


def verify(
    subjects: Sequence[Subject], wanted: Wanted, jobs: int = 0, progress: Progress = lambda result: None
) -> tuple[Result, ...]:
    """The results of every case of every variant, in the order of `subjects`; `progress` hears of each as it comes.

    `jobs` children work at once, 0: one for each processor, on an accelerator one.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    several = jobs or (processors if wanted.device == "cpu" else 1)
    several = max(1, min(several, len(subjects)))
    threads = max(1, processors // several)
    told = threading.Lock()

    def one(subject: Subject) -> list[Result]:
        found = []
        for result in results_of(Work(subject, wanted.plan, wanted.device, threads), wanted.limits):
            found.append(result)
            with told:
                progress(result)
        return found

    with ThreadPoolExecutor(several) as pool:
        return tuple(result for found in pool.map(one, subjects) for result in found)


def results_of(work: Work, limits: Limits) -> Iterator[Result]:
    """Every result of `work` as it comes, by as many children as it takes."""
    while True:
        at: str | None = None
        finished, fault = False, "the process died"
        child = _Child(work, limits)
        for answer in child.answers():
            if "begun" in answer:
                at = answer["begun"]
            elif "result" in answer:
                result = from_json(answer["result"])
                work, at = work.without(result.case), None
                yield result
            elif "refused" in answer:
                yield Result(work.subject.name, "all", "FAIL", note=answer["refused"])
                finished = True
            elif "fault" in answer:
                fault = answer["fault"]
            finished = finished or "done" in answer
        if finished:
            return
        yield Result(work.subject.name, at or "all", "FAIL", note=f"{fault}{child.last_words()}")
        if at is None:
            return  # it would die again
        work = work.without(at)


class _Child:
    """One process, watched."""

    def __init__(self, work: Work, limits: Limits) -> None:
        self.limits = limits
        env = {**os.environ, "OMP_NUM_THREADS": str(work.threads), "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "patchgen.lab.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.words: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.complaints = threading.Thread(target=self._hear, daemon=True)
        self.complaints.start()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(work.as_text())
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once: the end of its answers says so

    def answers(self) -> Iterator[dict[str, Any]]:
        """What it says; last of all a "fault" where it had to be ended, or ended badly."""
        limit, since = float(START), time.monotonic()
        try:
            while True:
                try:
                    line = self.lines.get(timeout=_TICK)
                except queue.Empty:
                    if fault := self._exceeded(since, limit):
                        yield {"fault": fault}
                        return
                    continue
                if line is None:
                    code = self.process.wait()
                    yield {"fault": f"the process ended with code {code}"}
                    return
                if late := self._late(since, limit):  # it came between two ticks
                    yield {"fault": late}
                    return
                limit, since = self.limits.seconds, time.monotonic()
                yield json.loads(line)
        finally:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """The last line that it wrote on stderr."""
        self.complaints.join(timeout=1)
        said = [word.strip() for word in self.words if word.strip()]
        return f": {said[-1][:300]}" if said else ""

    def _exceeded(self, since: float, limit: float) -> str:
        if late := self._late(since, limit):
            return late
        if (used := resident(self.process.pid)) > self.limits.megabytes:
            return f"took {used:.0f} MB of memory, more than {self.limits.megabytes:.0f}"
        return ""

    def _late(self, since: float, limit: float) -> str:
        return f"took more than {limit:.0f} seconds" if time.monotonic() - since > limit else ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.words = [*self.words[-20:], line]


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds; 0 where the system does not say (only Linux does here)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
