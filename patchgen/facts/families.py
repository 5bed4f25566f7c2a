"""Sizes of single families of models, and what their checkpoints set, by model type.

They are data: `families.toml` and `set_by_checkpoints.toml`.  `like` names a table above that one
begins with.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Tables = dict[str, dict[str, Any]]


def _read(name: str) -> Tables:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    tables: Tables = {}
    written = tomllib.loads(text)
    for kind, table in written.items():
        alike = tables.get(table.pop("like", ""), {})
        unset = dict.fromkeys(table.pop("unset", ()))
        tables[kind] = {**alike, **table, **unset}
    return {kind: table for kind, table in tables.items() if not kind.startswith("_")}


FAMILIES = _read("families.toml")
SET_BY_CHECKPOINTS = _read("set_by_checkpoints.toml")
