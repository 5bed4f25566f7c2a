"""The results of a run in one JSON file: written whenever one more is known, taken up by the next run.

A case is the unit that is taken up: its contestants were timed in turns, which another process cannot continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.project.disk.write import replace_file
from patchgen.training.bench.result import Result, from_json

FORMAT = 1


class Unreadable(Exception):
    """The file is none that a run wrote, or one of other circumstances; the message says so of it."""


@dataclass(slots=True)
class Record:
    """All that is known; changed while a run goes on.  `made` is what a run that takes it up must have the same."""

    path: Path
    made: dict[str, Any]
    machine: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)

    def about(self, case: str) -> dict[str, Any]:
        """What is known of a case beside its contestants."""
        told: dict[str, Any] = self.cases.setdefault(case, {"contestants": {}})
        return told

    def add(self, case: str, entry: str, result: Result) -> None:
        self.about(case)["contestants"][entry] = result.as_json()

    def results(self, case: str) -> dict[str, Result]:
        """Of the contestants that are known."""
        told = self.cases.get(case, {}).get("contestants", {})
        return {name: from_json(result) for name, result in told.items()}

    def done(self, case: str, entries: Iterable[str] = ()) -> bool:
        """Whether the case ran to its end, with these among its contestants."""
        told = self.cases.get(case, {})
        return bool(told.get("done")) and set(entries) <= told["contestants"].keys()

    def reopen(self, case: str) -> None:
        """The case is begun: what it has stays until it is replaced, and is not all of it."""
        for name in ("done", "references", "fault"):
            self.about(case).pop(name, None)

    def blame(self, case: str, fault: str) -> None:
        """The case could not be begun, and why."""
        self.reopen(case)
        self.about(case)["fault"] = fault

    def fault(self, case: str) -> str:
        """Why the case could not be begun when it was to be; "" where it was."""
        return str(self.cases.get(case, {}).get("fault", ""))

    def write(self) -> None:
        """Put it into its file, whole or not at all."""
        told = {"format": FORMAT, "made": self.made, "machine": self.machine, "cases": self.cases}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, (json.dumps(told, indent=1) + "\n").encode(), lasting=False)


def read_record(path: Path) -> Record:
    """What a run wrote.  Raises Unreadable."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise Unreadable("has another format than this version writes")
        return Record(path, told["made"], told["machine"], told["cases"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"is not a file that patchgen bench wrote: {error}") from error


def start_record(path: Path, made: dict[str, Any]) -> Record:
    """As `taken_up`; an empty one where the former could not be."""
    try:
        return resume_record(path, made)
    except Unreadable:
        return Record(path, made)


def resume_record(path: Path, made: dict[str, Any]) -> Record:
    """The record of a former run where there is one, else an empty one.

    Raises Unreadable where the former one was made under other circumstances, which says what differs.
    """
    if not path.exists():
        return Record(path, made)
    former = read_record(path)
    # What is run may change from run to run; where and by what may not.
    for name in sorted(made.keys() | former.made.keys()):
        if made.get(name) != former.made.get(name):
            raise Unreadable(
                f"was made with {name} {former.made.get(name)!r}; this is {made.get(name)!r}"
            )
    return former
