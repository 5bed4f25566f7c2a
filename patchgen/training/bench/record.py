"""The results of a run in one JSON file, written after each result and resumed by the next run.

Only whole cases are resumed: their entries were timed in rounds, which another process cannot
continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.project.write import replace_file
from patchgen.training.bench.result import Result, from_json

FORMAT = 1


class Unreadable(Exception):
    """The file was not written by a run, or by one on another machine; the message says which."""


@dataclass(slots=True)
class Record:
    """All results so far.  A run that resumes the record must have the same `made`."""

    path: Path
    made: dict[str, Any]
    machine: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)

    def about(self, case: str) -> dict[str, Any]:
        """Return what is known of a case beside its entries."""
        data: dict[str, Any] = self.cases.setdefault(case, {"entries": {}})
        return data

    def add(self, case: str, entry: str, result: Result) -> None:
        self.about(case)["entries"][entry] = result.as_json()

    def results(self, case: str) -> dict[str, Result]:
        """Return the results of a case, by entry."""
        data = self.cases.get(case, {}).get("entries", {})
        return {name: from_json(result) for name, result in data.items()}

    def done(self, case: str, entries: Iterable[str] = ()) -> bool:
        """Return whether the case ran to its end, with these entries."""
        data = self.cases.get(case, {})
        return bool(data.get("done")) and set(entries) <= data["entries"].keys()

    def reopen(self, case: str) -> None:
        """Mark the case as started; its results stay until they are replaced."""
        for name in ("done", "references", "fault"):
            self.about(case).pop(name, None)

    def blame(self, case: str, fault: str) -> None:
        """Record why the case could not be started."""
        self.reopen(case)
        self.about(case)["fault"] = fault

    def fault(self, case: str) -> str:
        """Return why the case could not be started; "" where it was."""
        return str(self.cases.get(case, {}).get("fault", ""))

    def write(self) -> None:
        """Write the file atomically."""
        data = {"format": FORMAT, "made": self.made, "machine": self.machine, "cases": self.cases}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, (json.dumps(data, indent=1) + "\n").encode(), lasting=False)


def read_record(path: Path) -> Record:
    """Return the record in a file.  Raises Unreadable."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise Unreadable("has another format than this version writes")
        return Record(path, data["made"], data["machine"], data["cases"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"is not a file that patchgen bench wrote: {error}") from error


def start_record(path: Path, made: dict[str, Any]) -> Record:
    """Return the former record, or an empty one where it cannot be resumed."""
    try:
        return resume_record(path, made)
    except Unreadable:
        return Record(path, made)


def resume_record(path: Path, made: dict[str, Any]) -> Record:
    """Return the record of a former run, or an empty one where there is none.

    Raises Unreadable, with the difference, where the former run had other versions or another
    device.
    """
    if not path.exists():
        return Record(path, made)
    former = read_record(path)
    # Runs may have other cases, but not another machine or other versions.
    for name in sorted(made.keys() | former.made.keys()):
        if made.get(name) != former.made.get(name):
            raise Unreadable(
                f"was made with {name} {former.made.get(name)!r}; this is {made.get(name)!r}"
            )
    return former
