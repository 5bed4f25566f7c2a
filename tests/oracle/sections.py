"""Test data in files for people: options (`# key: value`), then texts under `# --- title`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One case: `options` from the comment lines on top, `texts` by title, in order."""

    name: str
    options: dict[str, str]
    texts: dict[str, str]

    def names(self, option: str) -> tuple[str, ...]:
        """A comma-separated option."""
        value = self.options.get(option, "")
        return tuple(value.split(", ")) if value else ()

    def pairs(self, option: str) -> tuple[tuple[str, str], ...]:
        """An option of `Old > New`; `Name` alone stands for both."""
        found = [name.partition(" > ") for name in self.names(option)]
        return tuple((old, new or old) for old, _, new in found)


def parse(name: str, text: str) -> Entry:
    """The case in `text`; a text ends with one newline, or is empty."""
    head, *sections = re.split(r"^# --- ", text, flags=re.MULTILINE)
    options = dict(re.findall(r"^# (\w+): (.*)$", head, flags=re.MULTILINE))
    texts = {}
    for section in sections:
        title, _, body = section.partition("\n")
        texts[title.strip()] = body.strip("\n") + "\n" if body.strip("\n") else ""
    return Entry(name, options, texts)


def read(path: Path) -> tuple[Entry, ...]:
    """The cases of a file: each begins with `# === name`; an only one is named after the file."""
    text = path.read_text(encoding="utf-8")
    _, *entries = re.split(r"^# === ", text, flags=re.MULTILINE)
    if not entries:
        return (parse(path.stem, text),)
    return tuple(parse(entry.partition("\n")[0], entry.partition("\n")[2]) for entry in entries)
