"""What a report says already of variants that this run leaves alone.

A run of one variant rewrites what the report says of that variant.  Results of other versions or of
another device are dropped: one page never mixes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.verify.report.result import Result, from_json


@dataclass(frozen=True, slots=True)
class Record:
    """Results, and the command that gave those of each variant."""

    results: tuple[Result, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)

    def of(self, names: Collection[str]) -> Record:
        """The record of some variants."""
        return Record(
            tuple(each for each in self.results if each.variant in names),
            {name: command for name, command in self.commands.items() if name in names},
        )

    def with_newer(self, newer: Record) -> Record:
        """This record where `newer` says nothing of a variant, and `newer` where it does."""
        kept = self.of(self.commands.keys() - newer.commands.keys())
        return Record((*kept.results, *newer.results), {**kept.commands, **newer.commands})


def make_record(results: Sequence[Result], command: str) -> Record:
    """The record of one run."""
    return Record(tuple(results), dict.fromkeys((each.variant for each in results), command))


def read_record(path: Path, device: str, versions: Mapping[str, str]) -> Record:
    """What `path`, a parity.json, holds; nothing if it is of another device or of other versions.

    A file that cannot be read is replaced, as one that is not there.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if (data["device"], data["versions"]) != (device, dict(versions)):
            return Record()
        results = tuple(from_json(case) for case in data["cases"])
        names = dict.fromkeys(each.variant for each in results)
        commands = data.get("commands") or dict.fromkeys(names, data["command"])
    except (OSError, ValueError, KeyError, TypeError):
        return Record()
    return Record(results, commands)
