"""How a project's variants stand towards another release of their parents: `patchgen check --package-root NEW_TREE`.

In: the gate's report, worked out against the new tree, and the records of what each output was made from.  Out: for
each modular file one of four answers, with the upstream diff of every definition that it uses and that changed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.batch.outcome import Outcome, digest_of, unified
from patchgen.errors import Location, PatchgenError, Problem
from patchgen.flat import UsedSymbol
from patchgen.gate.lock import Record
from patchgen.gate.verdict import Report, Status
from patchgen.project.files import Modular, Project
from patchgen.source.locate import Environment


class Fit(enum.StrEnum):
    """What becomes of a variant under the new release."""

    UNAFFECTED = "unaffected"
    CLEAN = "regenerates clean"
    BROKEN = "no longer fits"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Change:
    """A definition that a variant uses and that the new release has otherwise, or no more.

    `diff` is empty where the recorded text is not at hand to compare with.
    """

    symbol: str
    gone: bool
    diff: str


@dataclass(frozen=True, slots=True)
class Drift:
    """One modular file under the new release; `problems` is what no longer fits."""

    modular: str
    fit: Fit
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]


def find_drift(project: Project, report: Report, records: Mapping[Path, Record]) -> tuple[Drift, ...]:
    """The drift of every modular file of the project, whose parents come from another tree in this run."""
    new = project.environment()
    old = replace(project, package_root=None).environment()
    return tuple(
        _drift(outcome, report, tuple(_changes(_used_by(outcome.modular, records), old, new)))
        for outcome in report.outcomes
        if outcome.modular.recorded
    )


def _used_by(modular: Modular, records: Mapping[Path, Record]) -> list[UsedSymbol]:
    used = {used for record in records.values() if record.modular == modular.shown for used in record.parents}
    # A statement without a name is recorded under its place, which says nothing in another release.
    return sorted(symbol for symbol in used if symbol.symbol.rpartition(".")[2].isidentifier())


def _drift(outcome: Outcome, report: Report, changes: tuple[Change, ...]) -> Drift:
    shown = outcome.modular.shown
    if outcome.problems:
        fit = Fit.GONE if any(change.gone for change in changes) else Fit.BROKEN
        return Drift(shown, fit, changes, outcome.problems)
    clean = all(verdict.status is Status.OK for verdict in report.verdicts if verdict.modular == shown)
    return Drift(shown, Fit.UNAFFECTED if clean else Fit.CLEAN, changes, ())


def _changes(used: Sequence[UsedSymbol], old: Environment, new: Environment) -> Iterator[Change]:
    for symbol in used:
        after = text_of(symbol.symbol, new)
        if after is None:
            yield Change(symbol.symbol, True, "")
        elif digest_of(after) != symbol.digest:
            before = text_of(symbol.symbol, old)
            known = before is not None and digest_of(before) == symbol.digest
            diff = unified(before or "", after, f"{symbol.symbol} (recorded)", f"{symbol.symbol} (new)")
            yield Change(symbol.symbol, False, diff if known else "")


def text_of(symbol: str, env: Environment) -> str | None:
    """The text of the definition `module.name`, or None where there is no such module or definition in it."""
    module, _, name = symbol.rpartition(".")
    if env.path(module) is None:
        return None
    try:
        block = env.index(module, Location(module)).definition(name)
    except PatchgenError:
        return None
    return None if block is None else block.text
