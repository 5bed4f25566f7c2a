"""Runs cases in child processes, one for each group, and keeps what they say in the record as they say it.

A child that takes longer than it said, or dies, is a "failed" for the contestant that it was at; another one runs what
is left.  When the time of the whole run is up, what has not run has "no time".
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
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from patchgen.bench.case import Case
from patchgen.bench.child import Work
from patchgen.bench.record import Record
from patchgen.bench.result import Result, from_json

SECONDS = 450.0  # of the whole run, which ends within eight minutes then
START = 180.0  # until a child speaks: importing torch and transformers on a cold, busy machine
GRACE = 20.0  # that a child has to end by itself when time is up
_TICK = 0.2

Progress = Callable[[str, str, Result], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is for.  `command` starts a child; `together`: one for everything, which imports once."""

    table: str
    device: str
    tiny: bool
    seconds: float
    only: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-m", "patchgen.bench.child")

    @property
    def together(self) -> bool:
        return self.tiny


def run(cases: Sequence[Case], wanted: Wanted, record: Record, progress: Progress) -> None:
    """Run what the record does not have yet; `progress` hears of each result as it comes."""
    until = time.monotonic() + wanted.seconds
    todo = [case for case in cases if not _done(record, case)]
    for _, group in groupby(todo, key=lambda case: "" if wanted.together else case.group):
        _run_group(list(group), wanted, record, progress, until)
    record.write()


def _done(record: Record, case: Case) -> bool:
    return record.done(case.id, [one.name for one in case.contestants])


def _run_group(cases: list[Case], wanted: Wanted, record: Record, progress: Progress, until: float) -> None:
    skip: list[tuple[str, str]] = []
    while todo := [case for case in cases if not _done(record, case)]:
        left = until - time.monotonic()
        if left <= 0:
            _no_time(todo, record, progress)
            return
        ids = tuple(case.id for case in todo)
        work = Work(
            wanted.table, ids, wanted.only, wanted.device, wanted.tiny, left, wanted.seconds / SECONDS, tuple(skip)
        )
        ended = _listen(_Child(wanted.command, work, left + GRACE), record, progress)
        if ended is None:
            return
        case, contestant, fault = ended
        if not contestant:  # it would die again: nothing was begun that could be left out
            _give_up(todo, case, fault, record, progress)
            cases = [one for one in cases if one.id != case] if case else []
        else:
            skip.append((case, contestant))
            _note(record, progress, case, contestant, Result("failed", fault))


def _listen(child: _Child, record: Record, progress: Progress) -> tuple[str, str, str] | None:
    """Keep what the child says; where it was and what happened, if it did not end well."""
    case = contestant = ""
    for said in child.answers():
        match said:
            case {"fault": fault}:
                return case, contestant, f"{fault}{child.last_words()}"
            case {"machine": machine, "versions": versions}:
                record.machine = {**machine, "versions": versions}
            case {"begun": case, "contestant": contestant}:
                if not contestant:
                    record.reopen(case)
            case {"case": place, "contestant": name, "result": result}:
                contestant = ""
                _note(record, progress, place, name, from_json(result))
            case {"case": place, "about": about}:
                record.about(place).update(about)
            case {"case": place, "reference": reference}:
                record.about(place).setdefault("references", []).append(reference)
            case {"case": place, "done": True}:
                record.about(place)["done"] = True
                case = ""
            case {"done": True}:
                child.end()
                return None
        record.write()
    return case, contestant, "the process said nothing more"


def _note(record: Record, progress: Progress, case: str, contestant: str, result: Result) -> None:
    record.add(case, contestant, result)
    record.write()
    progress(case, contestant, result)


def _no_time(cases: Sequence[Case], record: Record, progress: Progress) -> None:
    for case in cases:
        known = record.results(case.id)
        for contestant in case.contestants:
            former = known.get(contestant.name)
            if former is None:
                _note(record, progress, case.id, contestant.name, Result("no time"))
            elif former.status == "ok":
                record.add(case.id, contestant.name, replace(former, status="partial"))


def _give_up(cases: Sequence[Case], at: str, fault: str, record: Record, progress: Progress) -> None:
    for case in cases:
        if at in ("", case.id):
            for contestant in case.contestants:
                if contestant.name not in record.results(case.id):
                    _note(record, progress, case.id, contestant.name, Result("failed", fault))


class _Child:
    """One process, watched."""

    def __init__(self, command: Sequence[str], work: Work, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
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
        """What it says; last of all a "fault" where it had to be ended, or ended by itself."""
        late = time.monotonic() + START
        try:
            while True:
                try:
                    line = self.lines.get(timeout=_TICK)
                except queue.Empty:
                    if time.monotonic() > min(late, self.until):
                        yield {"fault": "it took too long"}
                        return
                    continue
                if line is None:
                    yield {"fault": f"the process ended with code {self.process.wait()}"}
                    return
                said = json.loads(line)
                late = time.monotonic() + float(said.get("limit", START))
                yield said
        finally:
            self.end()

    def end(self) -> None:
        """Nothing of it is left."""
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """What it said on stderr last of all."""
        self.complaints.join(timeout=2)
        last = next((word for word in reversed(self.words) if word.strip()), "")
        return f": {last.strip()[:200]}" if last else ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.words = [*self.words[-20:], line]
