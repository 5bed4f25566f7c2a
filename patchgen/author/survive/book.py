"""Results of earlier runs: one line of JSON for each result, written at once.

A run that is killed loses the result that it was working on, and nothing else.  A line that is cut
off, or that another version of patchgen wrote, does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from patchgen.author.survive.trial import Trial
from patchgen.author.survive.view import View, is_upstream
from patchgen.project.outcome import digest_of
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, Problem

FORMAT = 1
_TIDY = 2000  # lines that are of no use any more, before the file is written anew


@dataclass(frozen=True)
class Entry:
    """The trial of a variant, with the releases on which it is known to hold."""

    name: str  # a digest of the trial
    trial: Trial
    releases: set[str]


@dataclass
class Book:
    """Results by digests of variants; `made_with` is a digest of the code that makes outputs."""

    path: Path
    made_with: str
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def find(self, variant: str, view: View) -> Trial | None:
        """The trial of a variant that holds on the release of `view`."""
        known = self.entries.get(variant, [])
        release = view.files.digest
        # The same release first: then only the project's own modules can have changed.
        for entry in sorted(known, key=lambda entry: release not in entry.releases):
            same = release in entry.releases
            if all(view.answer(q) == a for q, a in _facts(entry, only_own=same)):
                if not same:
                    entry.releases.add(release)
                    self._append({"variant": variant, "release": release, "as": entry.name})
                return entry.trial
        return None

    def add(self, variant: str, view: View, trial: Trial) -> None:
        """Keep a new result, unless it comes from a defect of patchgen."""
        if any(problem.code.startswith("PG9") for problem in trial.problems):
            return
        problems = [asdict(problem) | {"cause": None} for problem in trial.problems]
        data = {"outputs": trial.outputs, "problems": problems, "facts": trial.facts}
        name = digest_of(json.dumps(data))[:16]
        release = view.files.digest
        self.entries.setdefault(variant, []).append(Entry(name, trial, {release}))
        self._append({"variant": variant, "release": release, "name": name, **data})

    def note(self, key: str, value: Any) -> None:
        """Keep another computed value."""
        self.notes[key] = value
        self._append({"note": key, "value": value})

    def _append(self, line: Mapping[str, Any]) -> None:
        text = json.dumps({"made_with": self.made_with, **line}, separators=(",", ":"))
        # In one piece, and behind a line end: a run may have been cut off in the middle of a line.
        with self.path.open("ab", buffering=0) as file:
            file.write(f"\n{text}\n".encode())


def open_book(path: Path, made_with: str) -> Book:
    """The book at `path`; the file is made with the first result."""
    book = Book(path, f"{FORMAT} {made_with}")
    useless = 0
    kept: list[bytes] = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        if not line:
            continue
        if _take(book, line):
            kept.append(line)
        else:
            useless += 1
    if useless > _TIDY:
        replace_file(path, b"\n".join([*kept, b""]), lasting=False)
    return book


def _take(book: Book, line: bytes) -> bool:
    """Read one line; return whether it is useful."""
    try:
        data = json.loads(line)
        if data["made_with"] != book.made_with:
            return False
        if "note" in data:
            book.notes[data["note"]] = data["value"]
            return True
        known = book.entries.setdefault(data["variant"], [])
        if "as" in data:
            same = next(entry for entry in known if entry.name == data["as"])
            same.releases.add(data["release"])
            return True
        problems = tuple(_problem(item) for item in data["problems"])
        trial = Trial(data["outputs"], problems, data["facts"])
    except (ValueError, KeyError, TypeError, StopIteration):
        return False
    known.append(Entry(data["name"], trial, {data["release"]}))
    return True


def _problem(item: Mapping[str, Any]) -> Problem:
    return Problem(
        Location(**item["at"]), item["code"], item["what"], item["hint"], item["severity"]
    )


def _facts(entry: Entry, *, only_own: bool) -> Iterator[tuple[str, str]]:
    for question, answer in entry.trial.facts.items():
        module = question.partition(" ")[2]
        is_own = question.startswith("file ") and not is_upstream(module)
        if is_own or not only_own:
            yield question, answer
