"""What is known of each model and part: values, and the file that keeps them from run to run.

An entry is valid while its key, the digest of its sources, is the one that a run computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError

Status = Literal[
    "verified",
    "written",
    "redundant",
    "not applicable",
    "refused",
    "cannot be built here",
    "failed",
]  # written: it converts, and no model has run yet
STATUSES: tuple[Status, ...] = (
    "verified",
    "written",
    "redundant",
    "not applicable",
    "refused",
    "cannot be built here",
    "failed",
)
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One part in one model.

    `why` tells what is redundant, refused, missing or failed.  `heads` are the verified classes,
    `seen` the errors that were planted in them and found.
    """

    status: Status
    why: str = ""
    key: str = ""
    heads: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_final(self) -> bool:
        """Whether the numeric pass has nothing to add."""
        return self.status != "written"


@dataclass(frozen=True)
class Book:
    """Entries by model and part; `models` has every model, in order."""

    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict)

    def entry(self, model: str, part: str) -> Entry | None:
        """What is known of `part` in `model`."""
        return self.entries.get((model, part))

    def with_entry(self, model: str, part: str, entry: Entry) -> Book:
        """The same book with this entry added or replaced."""
        return replace(self, entries={**self.entries, (model, part): entry})

    @property
    def models(self) -> tuple[str, ...]:
        """In order."""
        return tuple(sorted({model for model, _ in self.entries}))

    @property
    def parts(self) -> tuple[str, ...]:
        """As they came."""
        return tuple(dict.fromkeys(part for _, part in self.entries))


def read_book(path: Path) -> Book:
    """The book that an earlier run wrote to `path`; empty if there is no such file.

    Raises PatchgenError PG817 for a damaged file or another format, which a run would overwrite.
    """
    try:
        return _book(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Book()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"is not a file that this patchgen coverage wrote: {' '.join(str(error).split())}"
        raise PatchgenError(
            "PG817", Location(str(path)), what, "move it away, or --folder names another"
        ) from error


def _book(data: Mapping[str, Any]) -> Book:
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']}, and not {FORMAT}")
    entries = [
        (model, part, entry)
        for model, parts in data["models"].items()
        for part, entry in parts.items()
    ]
    order = {part: number for number, part in enumerate(data["parts"])}
    entries.sort(key=lambda one: order[one[1]])
    return Book({(model, part): _entry(entry) for model, part, entry in entries})


def _entry(fields: Mapping[str, Any]) -> Entry:
    values: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()
    }
    return Entry(**values)


def write_book(path: Path, book: Book, versions: Mapping[str, str]) -> None:
    """Keep `book`: one line for each entry, so a diff shows what changed."""
    models = []
    for model in book.models:
        known = [(part, entry) for part in book.parts if (entry := book.entry(model, part))]
        lines = ",\n".join(
            f"  {json.dumps(part)}: {json.dumps(_without_empty(entry))}" for part, entry in known
        )
        models.append(f" {json.dumps(model)}: {{\n{lines}\n }}")
    head = f'{{\n"format": {FORMAT},\n"versions": {json.dumps(versions)},\n'
    head += f'"parts": {json.dumps(book.parts)},\n'
    text = head + '"models": {\n' + ",\n".join(models) + "\n}\n}\n"
    replace_file(path, text.encode(), lasting=False)


def _without_empty(entry: Entry) -> dict[str, Any]:
    """The fields of an entry that are not empty."""
    return {name: value for name, value in asdict(entry).items() if value or name == "status"}
