"""Runs cases in child processes, one for each group, and keeps what they say in the record as they say it.

A child that takes longer than it said, or dies, is a "failed" for the contestant that it was at; another one runs what
is left.  When the time of the whole run is up, what has not run has "no time".
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

SECONDS = 450.0  # of the whole run, which ends within eight minutes then
START = 180.0  # until a child speaks: importing torch and transformers on a cold, busy machine
GRACE = 20.0  # that a child has to end by itself when time is up

Progress = Callable[[str, str, Result], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is for.  `command` starts a child; with `again` it runs what the record has, too.

    On a GPU a child for each group, one after the other; tiny cases in `jobs` children at once, which import once.
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
    """Run what the record does not have yet; `progress` hears of each result as it comes."""
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
            keeper.stop.set()  # where it was interrupted, or a disk is full: nothing more is begun
    record.write()


def _shares(cases: Sequence[Case], several: int) -> list[list[Case]]:
    """The cases in so many parts of about as many contestants."""
    shares: list[list[Case]] = [[] for _ in range(several)]
    for case in sorted(cases, key=lambda case: -len(case.entries)):
        min(shares, key=lambda share: sum(len(one.entries) for one in share)).append(case)
    return [share for share in shares if share]


class _Keeper:
    """The record, of which several children may tell at once; `anew`: cases that are to run whatever it has."""

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
        """Keep a result, and tell of it.  One that there was no time for takes nothing away that is known."""
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
        """Nobody of `case` was begun: who is not known has failed, and who is known is of a former run."""
        with self.lock:
            self.anew.discard(case.id)
            self.record.blame(case.id, fault)
            known = self.results(case)
            for entry in case.entries:
                if entry.name not in known:
                    self.note(case.id, entry.name, Result("failed", fault))
            self.record.write()

    def keep(self, said: dict[str, Any]) -> None:
        """Keep what a child said beside results."""
        with self.lock:
            match said:
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
        if not entry:  # it would die again: nothing was begun that could be left out
            for one in todo:
                if case in ("", one.id):
                    keeper.give_up(one, fault)
            cases = [one for one in cases if one.id != case] if case else []
        else:
            skip.append((case, entry))
            keeper.note(case, entry, Result("failed", fault))


def _listen(child: Child, seconds: float, keeper: _Keeper) -> tuple[str, str, str] | None:
    """Keep what the child says; where it was and what happened, if it did not end well."""
    case = entry = ""
    for said in _in_time(child, seconds, keeper.stop):
        keeper.keep(said)
        match said:
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
    """What it says until all is to stop; last of all a "fault" where it took too long, or ended by itself."""
    since = time.monotonic()
    until, late = since + seconds, since + START
    for said in child.answers():
        if said is not None:
            late = time.monotonic() + float(said.get("limit", START))
            yield said
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
