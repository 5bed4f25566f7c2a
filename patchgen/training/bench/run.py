"""Runs cases in child processes, one for each group, and records their results as they arrive.

A child that takes too long, or dies, is a "failed" for its current entry; another child runs the
rest. When the time of the whole run is used up, the remaining entries have the status "no time".
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from patchgen.training.bench.case import Case
from patchgen.training.bench.child import Work
from patchgen.training.bench.record import Record
from patchgen.training.bench.result import Result, from_json
from patchgen.verify.run.process import Child

SECONDS = 450.0  # of the whole run, so that it ends within eight minutes
START = 180.0  # until a child's first line: imports are slow on a cold, busy machine
GRACE = 20.0  # for a child to end by itself when its time is up

Progress = Callable[[str, str, Result], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run does.  `command` starts a child; `again` also runs what the record has.

    On a GPU, groups run one after the other.  Tiny cases run in `jobs` children at once.
    """

    table: str
    device: str
    tiny: bool
    seconds: float
    only: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-m", "patchgen.training.bench.child")
    jobs: int = 1
    again: bool = False


def run(cases: Sequence[Case], wanted: Wanted, record: Record, progress: Progress) -> None:
    """Run what the record does not have yet, and call `progress` with each result."""
    until = time.monotonic() + wanted.seconds
    keeper = _Keeper(record, progress, {case.id for case in cases} if wanted.again else set())
    todo = [case for case in cases if not keeper.done(case)]
    jobs = wanted.jobs if wanted.tiny else 1
    groups = (
        _shares(todo, jobs)
        if wanted.tiny
        else [list(g) for _, g in groupby(todo, key=lambda case: case.group)]
    )
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for _ in pool.map(lambda group: _run_group(group, wanted, keeper, until), groups):
                pass
        finally:
            keeper.stop.set()  # after an interrupt or a full disk, start nothing more
    record.write()


def _shares(cases: Sequence[Case], several: int) -> list[list[Case]]:
    """Divide the cases into parts with about equally many entries."""
    shares: list[list[Case]] = [[] for _ in range(several)]
    for case in sorted(cases, key=lambda case: -len(case.entries)):
        min(shares, key=lambda share: sum(len(one.entries) for one in share)).append(case)
    return [share for share in shares if share]


class _Keeper:
    """The record, shared by the threads of several children; cases in `anew` run in any case."""

    def __init__(self, record: Record, progress: Progress, anew: set[str]) -> None:
        self.record, self.progress, self.lock = record, progress, threading.RLock()
        self.anew = anew
        self.stop = threading.Event()

    def done(self, case: Case) -> bool:
        with self.lock:
            return case.id not in self.anew and self.record.done(
                case.id, [one.name for one in case.entries]
            )

    def results(self, case: Case) -> dict[str, Result]:
        with self.lock:
            return self.record.results(case.id)

    def note(self, case: str, entry: str, result: Result) -> None:
        """Record a result, and report it.  "no time" does not replace a known result."""
        with self.lock:
            former = self.record.results(case).get(entry) if result.status == "no time" else None
            if former is None:
                self.record.add(case, entry, result)
            else:
                if former.status == "ok" and not self.record.done(case):
                    self.record.add(case, entry, replace(former, status="partial"))
                result = replace(result, note="what was known of it stays")
            self.record.write()
            self.progress(case, entry, result)

    def give_up(self, case: Case, fault: str) -> None:
        """Record that `case` could not be started: entries without a result have failed."""
        with self.lock:
            self.anew.discard(case.id)
            self.record.blame(case.id, fault)
            known = self.results(case)
            for entry in case.entries:
                if entry.name not in known:
                    self.note(case.id, entry.name, Result("failed", fault))
            self.record.write()

    def keep(self, answer: dict[str, Any]) -> None:
        """Record an answer of a child that is not a result."""
        with self.lock:
            match answer:
                case {"machine": machine, "versions": versions}:
                    self.record.machine = {**machine, "versions": versions}
                case {"begun": case, "entry": ""}:
                    self.anew.discard(case)
                    self.record.reopen(case)
                case {"case": case, "about": about}:
                    self.record.about(case).update(about)
                case {"case": case, "reference": reference}:
                    self.record.about(case).setdefault("references", []).append(reference)
                case {"case": case, "done": True}:
                    self.record.about(case)["done"] = True
                case _:
                    return
            self.record.write()


def _run_group(cases: list[Case], wanted: Wanted, keeper: _Keeper, until: float) -> None:
    skip: list[tuple[str, str]] = []
    while not keeper.stop.is_set() and (todo := [case for case in cases if not keeper.done(case)]):
        left = until - time.monotonic()
        if left <= 0:
            _no_time(todo, keeper)
            return
        ids = tuple(case.id for case in todo)
        times = wanted.seconds / SECONDS
        work = Work(
            wanted.table, ids, wanted.only, wanted.device, wanted.tiny, left, times, tuple(skip)
        )
        child = Child(
            wanted.command, work.as_text(), {}, aside=True
        )  # an interrupt is ours to handle
        ended = _listen(child, left + GRACE, keeper)
        if ended is None or keeper.stop.is_set():
            return
        case, entry, fault = ended
        if not entry:  # no entry was started that could be skipped, so it would die again
            for one in todo:
                if case in ("", one.id):
                    keeper.give_up(one, fault)
            cases = [one for one in cases if one.id != case] if case else []
        else:
            skip.append((case, entry))
            keeper.note(case, entry, Result("failed", fault))


def _listen(child: Child, seconds: float, keeper: _Keeper) -> tuple[str, str, str] | None:
    """Record what the child says; return where it was and what happened, if it did not end well."""
    case = entry = ""
    for answer in _in_time(child, seconds, keeper.stop):
        keeper.keep(answer)
        match answer:
            case {"fault": fault}:
                return case, entry, f"{fault}{child.last_words()}"
            case {"begun": case, "entry": entry}:
                pass
            case {"case": place, "entry": name, "result": result}:
                entry = ""
                keeper.note(place, name, from_json(result))
            case {"case": _, "done": True}:
                case = ""
            case {"done": True}:
                child.end()
                return None
    return case, entry, "the process said nothing more"


def _in_time(child: Child, seconds: float, stop: threading.Event) -> Iterator[dict[str, Any]]:
    """Yield what the child says, and a "fault" at the end if it took too long or died."""
    since = time.monotonic()
    until, late = since + seconds, since + START
    for answer in child.answers():
        if answer is not None:
            late = time.monotonic() + float(answer.get("limit", START))
            yield answer
        elif stop.is_set():
            child.end()
            return
        elif time.monotonic() > min(late, until):
            child.end()
            yield {"fault": "it took too long"}
            return


def _no_time(cases: Sequence[Case], keeper: _Keeper) -> None:
    for case in cases:
        for entry in case.entries:
            keeper.note(case.id, entry.name, Result("no time"))
