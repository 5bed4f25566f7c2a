"""Write TOML that people read and git merges: tables of texts, long ones as they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

_QUOTES = "'''"


def write_table(keys: Iterable[str], fields: Mapping[str, str]) -> str:
    """A table with the path `keys`."""
    head = f"[{'.'.join(map(_quoted, keys))}]"
    lines = [f"{key} = {_text(value)}" for key, value in fields.items()]
    return "\n".join([head, *lines]) + "\n"


def _text(value: str) -> str:
    """A value as people read it best: over several lines, or in quotes."""
    # Between these quotes nothing is escaped, so that code reads and merges as it stands.
    is_plain = all(letter.isprintable() or letter in "\n\t" for letter in value)
    if value.endswith("\n") and is_plain and _QUOTES not in value:
        return f"{_QUOTES}\n{value}{_QUOTES}"
    return _quoted(value)


def _quoted(value: str) -> str:
    # TOML's strings have the escapes of JSON, and forbid one letter more.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
