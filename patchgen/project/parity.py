"""Which files a report of `patchgen verify --out` is about, by their digests.

    "about": {"llama_loss": {"modular/llama/modular_llama_loss.py": "3f1c...", ...}}

A report is checked in and stays when a variant changes, and whoever sends a variant can send a
report as well.  It counts for the modular file and the outputs that have these digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.project.lock import read_lock
from patchgen.project.outcome import digest_of_file
from patchgen.project.places import LOCK
from patchgen.syntax.errors import Location, PatchgenError

FOLDER, FILE = "docs/parity", "parity.json"
STATUSES = ("PASS", "WARN", "FAIL", "NONE")
Files = Mapping[str, str]  # digests by the paths of files, relative to the project


def files_of(home: Path, modular: str) -> Files:
    """The modular file and what is recorded of it, with the digests that the files have now."""
    names = [modular]
    for record in read_lock(home / LOCK).values():
        if record.modular == modular:
            names.append(record.output)
    return {name: digest_of_file(home / name) for name in names}


def is_about(report: Mapping[str, Any], variant: str, home: Path, modular: str) -> bool:
    """Whether `report` says of `variant` what it found of the files that are here."""
    files = report["about"].get(variant)
    return bool(files == files_of(home, modular))


def read_report(folder: Path) -> Mapping[str, Any]:
    """The report in `folder`; raises PatchgenError PG914 for what `verify` does not write."""
    path = folder / FILE
    try:
        report = disk.read_json(path)
        cases = [dict(case) for case in report["cases"]]
        texts = [case[name] for case in cases for name in ("variant", "case", "note")]
        tables = [report.setdefault(name, {}) for name in ("about", "commands", "versions")]
        about, commands, versions = tables
        texts += [*commands.values(), *versions.values()]
        for files in about.values():
            texts += files.values()
        texts += [report["command"], report["device"]]
        is_sound = all(isinstance(text, str) for text in texts)
        is_sound &= all(case["status"] in STATUSES for case in cases)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_sound = False
    if not is_sound:
        what = "is not what `patchgen verify --out DIR` writes"
        raise PatchgenError("PG914", Location(str(path)), what, "name its output")
    return report  # type: ignore[no-any-return]
