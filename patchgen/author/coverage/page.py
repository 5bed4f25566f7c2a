"""docs/coverage.md: the table of models and parts, totals beside goals, and every reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen.author.coverage.book import STATUSES, Book, Entry
from patchgen.project.markdown import table_lines

_LEGEND = """\
- **verified**: in a project of its own the part was written by `patchgen new` (grouped experts that
  it refuses: taken from the gallery), converted, built as a tiny model and compared with its parent
  in float32, forward and gradient of every parameter; the effect of the part was measured, and
  every error planted in that very model was found.
- **written**: it converts; no model has run.
- **redundant**: transformers does the same without a variant; `--force` writes it anyway.
- **not applicable** (–): the file has nothing that the part could change.
- **refused**: the reason is below, with its place in the file.
- **cannot be built here**: the parent itself needs what is named below, so nothing is claimed.
- **failed**: a case of `patchgen verify` failed; the first one is below. It is not counted.
"""
_SHORT = {"not applicable": "–", "cannot be built here": "not built"}
_REASONS = ("failed", "cannot be built here", "refused")


@dataclass(frozen=True, slots=True)
class Target:
    """The goal of a part: a number of `models`, or of all models if that is None."""

    part: str
    says: str
    wanted: int
    models: frozenset[str] | None = None
    heads: bool = False  # heads are counted, not models

    def reached(self, book: Book) -> int:
        """The number of verified models."""
        found = [
            entry
            for (model, part), entry in book.entries.items()
            if part == self.part
            and entry.status == "verified"
            and (self.models is None or model in self.models)
        ]
        return sum(len(entry.heads) for entry in found) if self.heads else len(found)


def as_markdown(
    book: Book, targets: Iterable[Target], versions: Mapping[str, str], command: str
) -> str:
    """The page."""
    lines = ["# Coverage", "", *_opening(book, versions, command), "", _LEGEND]
    lines += ["## Totals", "", *_totals(book), "", *_targets(book, targets), ""]
    lines += ["## Models", "", *_table(book), ""]
    for part in book.parts:
        lines += _reasons(book, part)
    return "\n".join(lines).rstrip("\n") + "\n"


def _opening(book: Book, versions: Mapping[str, str], command: str) -> Iterator[str]:
    made = ", ".join(f"{name} {version}" for name, version in versions.items())
    count = len(book.models)
    yield f"Every part in each of the {count} modeling modules of transformers, by structure"
    yield f"and, where the table says *verified*, by numbers ({made}, on CPU). Made by"
    yield ""
    yield f"    {command}"
    yield ""
    yield "which continues an interrupted run: a result is valid while the file of the parent, the"
    yield "code beside it and the checks are the same. [coverage.json](coverage.json) has the"
    yield "errors that were planted and found."


def _totals(book: Book) -> list[str]:
    rows = []
    for part in book.parts:
        found = Counter(entry.status for (_, other), entry in book.entries.items() if other == part)
        rows.append((part, *(str(found[status]) for status in STATUSES)))
    return table_lines(("part", *STATUSES), rows, numbers=STATUSES)


def _targets(book: Book, targets: Iterable[Target]) -> list[str]:
    rows = [
        (target.part, str(target.reached(book)), target.says, str(target.wanted))
        for target in targets
    ]
    return table_lines(("part", "verified", "of", "wanted"), rows, numbers=("verified", "wanted"))


def _table(book: Book) -> list[str]:
    rows = []
    for model in book.models:
        cells = [_cell(book.entry(model, part)) for part in book.parts]
        rows.append((model, *cells))
    return table_lines(("model", *book.parts), rows)


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return ""
    status = _SHORT.get(entry.status, entry.status)
    return f"**{status}**" if entry.status == "verified" else status


def _reasons(book: Book, part: str) -> Iterator[str]:
    for status in _REASONS:
        found = [
            (model, entry)
            for model in book.models
            if (entry := book.entry(model, part)) is not None and entry.status == status
        ]
        if found:
            yield f"## {part}: {status}"
            yield ""
            yield from (f"- {model}: {_escaped(entry.why)}" for model, entry in found)
            yield ""


def _escaped(text: str) -> str:
    """As it stands, between the marks that Markdown would take for its own."""
    return " ".join(text.split()).replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")
