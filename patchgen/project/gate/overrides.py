"""Find overrides whose parent has changed since somebody looked at it.

In: the overrides of each modular file, with the parents' texts as they are now, and the texts that
patchgen.overrides.toml records.  Out: the stale ones, each with upstream's diff, and the records as
`convert` writes them.

The output of an override has nothing of the parent's text.  So the record of an output cannot tell,
and `convert` must not replace what stands in this file either: only `convert --accept` does.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.compiler.flat import Override
from patchgen.project.batch.outcome import Outcome, unified
from patchgen.project.files import Modular
from patchgen.project.toml_text import write_table
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.regular import read_regular_text
from patchgen.syntax.same import says_same

FILE = "patchgen.overrides.toml"
ABOUT = """\
# The parents' texts below overrides, as they were when somebody last looked at them.  Written by
# `patchgen convert`.  `patchgen check` names overrides whose parent says something else by now;
# `patchgen convert --accept` records the new text.
"""


@dataclass(frozen=True, slots=True)
class Parent:
    """What stood in the place of an override: the symbol of the parent, and its text."""

    symbol: str
    text: str


Names = Mapping[str, Parent]  # by the names of overrides: "LlamaMLP.forward"
Records = Mapping[str, Names]  # by the display paths of modular files


@dataclass(frozen=True, slots=True)
class StaleOverride:
    """An override whose parent is not what it was; `override.parent` is empty where it is gone."""

    modular: str
    override: Override
    before: Parent

    @property
    def diff(self) -> str:
        """What upstream changed."""
        now = self.override.parent or "(gone)"
        return unified(self.before.text, self.override.text, self.before.symbol, now)

    @property
    def problem(self) -> Problem:
        """The finding."""
        name, parent = self.override.name, self.before.symbol
        what = f"{name} overrides {parent}, which has changed"
        if not self.override.parent:
            what = f"{name} was written to override {parent}, which is gone"
        accept = f"`patchgen convert --accept {self.modular}`"
        hint = f"change the override if it has to follow, then run {accept}\n"
        return Problem(self.override.at, "PG510", what, hint + _indented(self.diff))


def _indented(diff: str) -> str:
    return textwrap.indent(diff.rstrip("\n"), " " * 8)


@dataclass(frozen=True, slots=True)
class OverrideReport:
    """The stale overrides of a run, and those that it accepts.

    `records` are those that `convert` leaves behind; `unrecorded` says where they are other ones
    than before.
    """

    stale: tuple[StaleOverride, ...] = ()
    accepted: tuple[StaleOverride, ...] = ()
    records: Records = field(default_factory=dict)
    unrecorded: tuple[Problem, ...] = ()


def compare_overrides(
    outcomes: Iterable[Outcome], known: Records, env: Environment, *, accept: bool = False
) -> OverrideReport:
    """Compare the overrides of `outcomes` with the records; with `accept`, stale ones are accepted.

    A modular file that does not convert keeps its records, and so do those outside the run.
    """
    records = {path: names for path, names in known.items() if (env.home / path).exists()}
    # A file that was moved takes its records along.
    lost = [names for path, names in known.items() if path not in records]
    stale: list[StaleOverride] = []
    accepted: list[StaleOverride] = []
    unrecorded: list[Problem] = []
    for outcome in outcomes:
        path = outcome.modular.display_path
        before = known.get(path, {})
        if not outcome.modular.recorded:
            continue
        if outcome.problems:
            stale += _stale_of_failed(outcome.modular, before, env)
            continue
        found = list(_stale(outcome, before, lost))
        # Overrides that are gone lose their records.
        now = dict(_now(outcome, before, lost, found, accept=accept))
        (accepted if accept else stale).extend(found)
        if now != before:
            unrecorded.append(_unrecorded(path, before, now))
        records[path] = now
    left = {path: names for path, names in records.items() if names}
    return OverrideReport(
        tuple(sorted(stale, key=_place)),
        tuple(sorted(accepted, key=_place)),
        left,
        tuple(unrecorded),
    )


def _place(stale: StaleOverride) -> Location:
    return stale.override.at


def _stale(outcome: Outcome, before: Names, lost: Sequence[Names]) -> Iterator[StaleOverride]:
    """The overrides whose recorded parent says something else than today's."""
    names = {override.name for override in outcome.overrides}
    for override in outcome.overrides:
        parent = _find_record(override, names, before, lost)
        if parent is not None and not says_same(parent.text, override.text):
            yield StaleOverride(outcome.modular.display_path, override, parent)


def _stale_of_failed(modular: Modular, before: Names, env: Environment) -> Iterator[StaleOverride]:
    """The same for a modular file that does not convert."""
    # Imported here: it loads what reads sources, and most modular files convert.
    from patchgen.project.gate.recorded_parents import find_recorded

    for name, parent in before.items():
        override = find_recorded(name, parent.symbol, modular, env)
        if override is not None and not says_same(parent.text, override.text):
            yield StaleOverride(modular.display_path, override, parent)


def _now(
    outcome: Outcome,
    before: Names,
    lost: Sequence[Names],
    stale: Sequence[StaleOverride],
    *,
    accept: bool,
) -> Iterator[tuple[str, Parent]]:
    """The records of a modular file after `convert`: new overrides, and those that are known."""
    names = {override.name for override in outcome.overrides}
    changed = {one.override.name for one in stale}
    for override in sorted(outcome.overrides, key=lambda one: one.name):
        parent = _find_record(override, names, before, lost)
        if parent is None or (accept and override.name in changed):
            parent = Parent(override.parent, override.text) if override.parent else None
        # The text that is known stays, also where the new one only looks different.
        if parent is not None:
            yield override.name, parent


def _find_record(
    override: Override, names: set[str], before: Names, lost: Sequence[Names]
) -> Parent | None:
    """The record of an override, also if its class or its file has another name by now."""
    if override.name in before:
        return before[override.name]
    renamed = [parent for name, parent in before.items() if name not in names]
    moved = [parent for names_there in lost for parent in names_there.values()]
    # It is the same override if it still overrides the same member.
    for parent in (*renamed, *moved):
        if parent.symbol == override.parent:
            return parent
    return None


def _unrecorded(path: str, before: Names, now: Names) -> Problem:
    """The problem of records that `convert` would change."""
    every = sorted(before.keys() | now.keys())
    names = [name for name in every if before.get(name) != now.get(name)]
    listed = ", ".join(names[:3])
    if len(names) > 3:
        listed += f" and {len(names) - 3} more"
    what = f"does not record what {path} overrides by now: {listed}"
    return Problem(Location(FILE), "PG511", what, "run `patchgen convert`")


# The file


def read_overrides(home: Path) -> Records:
    """The records of the project at `home`; none when there is no file.

    Raises PatchgenError PG512 where it cannot be understood, for example because of merge
    conflicts.
    """
    try:
        data = tomllib.loads(read_regular_text(home / FILE))
        return {path: _read_names(names) for path, names in data.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it has other entries"
        if isinstance(error, OSError):
            why = error.strerror or str(error)
        hint = "repair it, or bring it back from git; without it, all parents count as looked at"
        raise PatchgenError("PG512", Location(FILE), f"cannot be read: {why}", hint) from error


def _read_names(names: Mapping[str, Mapping[str, str]]) -> Names:
    """The records of one modular file.  Raises ValueError for other entries."""
    found = {}
    for name, entry in names.items():
        # A number or a date is as good TOML as a text.
        if not isinstance(entry["parent"], str) or not isinstance(entry["text"], str):
            raise ValueError(name)
        found[name] = Parent(entry["parent"], entry["text"])
    return found


def render_overrides(records: Records) -> str:
    """The text of patchgen.overrides.toml, sorted; "" where there is nothing to record."""
    tables = [
        write_table((path, name), {"parent": parent.symbol, "text": parent.text})
        for path, names in sorted(records.items())
        for name, parent in sorted(names.items())
    ]
    return "\n".join([ABOUT, *tables]) if tables else ""
