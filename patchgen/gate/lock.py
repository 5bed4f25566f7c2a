"""patchgen.lock: what each output was made from.  People read it, and `check` (why stale?) and `explain` (line maps).

Checked in; sorted, without times and absolute paths.  A record tells of the run that first gave its output, and is
made anew only with another output: what `check` finds right, `convert` leaves alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.batch.outcome import Made
from patchgen.errors import Location, PatchgenError
from patchgen.flat import LineOrigin, UsedSymbol
from patchgen.project.places import LOCK
from patchgen.settings import Settings

FORMAT = 1
ABOUT = (
    "Written by `patchgen convert`, read by `patchgen check` and `patchgen explain`: what each output was made from."
)


@dataclass(frozen=True, slots=True)
class Record:
    """What one output was made from, and by what.  Digests are sha256; `output` and `modular` are shown paths."""

    output: str
    modular: str
    modular_digest: str
    digest: str
    diff_digest: str
    made_by: str  # "patchgen 0.1.0, libcst 1.9.0, ruff 0.14.10, ..."
    settings: str
    parents: tuple[UsedSymbol, ...]
    lines: tuple[LineOrigin, ...]


def make_record(
    output: str, modular: str, modular_digest: str, made: Made, made_by: str, settings: Settings
) -> Record:
    """The record of an output that has just been made."""
    return Record(
        output,
        modular,
        modular_digest,
        made.digest,
        made.diff_digest,
        made_by,
        describe(settings),
        made.parents,
        made.lines,
    )


def describe(settings: Settings) -> str:
    """The settings that shape an output, in words."""
    parts = [f"{settings.formatter} at line length {settings.line_length}"]
    if settings.flatten:
        parts.append(f"flattens {', '.join(settings.flatten)}")
    parts += [f"{decorator} goes with {method}" for decorator, method in settings.decorators]
    return "; ".join(parts)


def is_of(record: Record | None, made: Made) -> bool:
    """Whether `record` tells of this output and this diff.

    What they were made from may have changed since: a comment, a definition that is overridden, the release of a tool.
    """
    return record is not None and (record.digest, record.diff_digest) == (made.digest, made.diff_digest)


def read_lock(path: Path) -> dict[str, Record]:
    """The records by output; none when there is no file.

    Raises PatchgenError PG507 when it cannot be understood, merge conflicts included.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"it has format {data['format']}, this patchgen writes {FORMAT}")
        return {output: _record(output, entry) for output, entry in data["outputs"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"cannot be read: {error}" if isinstance(error, (OSError, ValueError)) else "is not a lock of patchgen"
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
        hint = "delete it and run `patchgen convert`: it is made anew"
        raise PatchgenError("PG507", Location(LOCK, line, 1 if line else 0), what, hint) from error


def render_lock(records: Iterable[Record]) -> str:
    """The text of patchgen.lock."""
    outputs = {record.output: _entry(record) for record in sorted(records, key=lambda record: record.output)}
    return json.dumps({"about": ABOUT, "format": FORMAT, "outputs": outputs}, indent=1, ensure_ascii=False) + "\n"


def _entry(record: Record) -> dict[str, Any]:
    parents: dict[str, dict[str, str]] = {}
    for used in record.parents:
        parents.setdefault(used.path, {})[used.symbol] = used.digest
    lines: dict[str, list[str]] = {}
    for origin in record.lines:
        lines.setdefault(origin.path, []).append(f"{origin.first}-{origin.last}:{origin.line}")
    return {
        "modular": record.modular,
        "modular_sha256": record.modular_digest,
        "output_sha256": record.digest,
        "diff_sha256": record.diff_digest,
        "made_by": record.made_by,
        "settings": record.settings,
        "parents": {path: dict(sorted(symbols.items())) for path, symbols in sorted(parents.items())},
        "lines": {path: " ".join(ranges) for path, ranges in sorted(lines.items())},
    }


def _record(output: str, entry: Mapping[str, Any]) -> Record:
    parents = [
        UsedSymbol(symbol, digest, path)
        for path, symbols in entry["parents"].items()
        for symbol, digest in symbols.items()
    ]
    return Record(
        output,
        entry["modular"],
        entry["modular_sha256"],
        entry["output_sha256"],
        entry["diff_sha256"],
        entry["made_by"],
        entry["settings"],
        tuple(sorted(parents)),
        tuple(sorted(_origins(entry["lines"]))),
    )


def _origins(lines: Mapping[str, str]) -> Iterable[LineOrigin]:
    for path, ranges in lines.items():
        for first, last, line in re.findall(r"(\d+)-(\d+):(\d+)", ranges):
            yield LineOrigin(int(first), int(last), path, int(line))


def origin_of(lines: Iterable[LineOrigin], line: int) -> Location | None:
    """The place that line `line` of an output came from; None for a line that the converter wrote itself."""
    for origin in lines:
        if origin.first <= line <= origin.last:
            return Location(origin.path, origin.line + line - origin.first, 1)
    return None
