"""Compare variants with another release: `patchgen check --package-root NEW_TREE`.

In: the gate's report, worked out against the new tree, and the records of what each output was made
from.  Out: for each modular file one of four answers, with the upstream diff of every definition
that it uses and that changed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.compiler.flat import UsedSymbol
from patchgen.project.files import Project
from patchgen.project.lock import Record
from patchgen.project.outcome import Outcome, digest_of, unified
from patchgen.project.overrides import find_definition
from patchgen.project.verdict import Report, Status
from patchgen.syntax.errors import Problem
from patchgen.syntax.locate import Environment

# No such module, no such definition: what was never recorded can be gone too.
_NO_PARENT = ("PG101", "PG103")


class Fit(enum.StrEnum):
    """What the new release means for a variant."""

    UNAFFECTED = "unaffected"
    CLEAN = "regenerates clean"
    BROKEN = "no longer fits"
    GONE = "gone"

    @property
    def needs_work(self) -> bool:
        """Whether somebody has to change the modular file."""
        return self in (Fit.BROKEN, Fit.GONE)


@dataclass(frozen=True, slots=True)
class Change:
    """A definition that a variant uses, and that changed or is gone in the new release.

    `diff` is empty where the recorded text is not available.
    """

    symbol: str
    gone: bool
    diff: str


@dataclass(frozen=True, slots=True)
class Drift:
    """One modular file under the new release; `problems` says what no longer fits."""

    modular: str
    fit: Fit
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]

    @property
    def is_gone(self) -> bool:
        """Whether the new release lacks a parent."""
        return self.fit is Fit.GONE


def find_drift(
    project: Project, report: Report, records: Mapping[Path, Record]
) -> tuple[Drift, ...]:
    """The drift of every modular file, in a run whose parents come from another tree."""
    new = project.environment()
    root = project.package_root
    # Without the tree, modules are found in the installed release.
    old = replace(project, package_root=None).environment()
    if root is None:
        return ()
    used: dict[str, set[UsedSymbol]] = {}
    for record in records.values():
        used.setdefault(record.modular, set()).update(record.parents)

    def is_of_release(used: UsedSymbol) -> bool:
        module, _, name = used.symbol.rpartition(".")
        # A module in the same file with and without `root` belongs to another package.  A statement
        # without a name is recorded under its place, which says nothing in another release.
        is_there = new.path(module) != old.path(module) or _is_left_out(used, new, root)
        return name.isidentifier() and is_there

    drifts = []
    for outcome in report.outcomes:
        # Without a record, nobody knows what the variant was made from.
        if outcome.modular.recorded:
            recorded = used.get(outcome.modular.display_path, ())
            symbols = sorted(symbol for symbol in recorded if is_of_release(symbol))
            left_out = any(_is_left_out(symbol, new, root) for symbol in symbols)
            changes = tuple(_changes(symbols, old, new, root))
            drifts.append(_drift(outcome, report, changes, left_out))
    return tuple(drifts)


def _drift(outcome: Outcome, report: Report, changes: tuple[Change, ...], left_out: bool) -> Drift:
    """The answer for one modular file; `left_out` says that a parent's file is missing."""
    display_path = outcome.modular.display_path
    if left_out:
        return Drift(display_path, Fit.GONE, changes, outcome.problems)
    if outcome.problems:
        # Without its parent, everything else that is wrong follows from that.
        is_gone = any(change.gone for change in changes) or any(
            problem.code in _NO_PARENT for problem in outcome.problems
        )
        fit = Fit.GONE if is_gone else Fit.BROKEN
        return Drift(display_path, fit, changes, outcome.problems)
    # Its definitions may have changed, and give the same output: only the outputs decide.
    statuses = [verdict.status for verdict in report.verdicts if verdict.modular == display_path]
    clean = all(status is Status.OK for status in statuses)
    return Drift(display_path, Fit.UNAFFECTED if clean else Fit.CLEAN, changes, ())


def _changes(
    used: Sequence[UsedSymbol], old: Environment, new: Environment, root: Path
) -> Iterator[Change]:
    """The definitions of `used` that the new release changes or lacks."""
    for symbol in used:
        after = None if _is_left_out(symbol, new, root) else text_of(symbol.symbol, new)
        if after is None:
            yield Change(symbol.symbol, True, "")
            continue
        if digest_of(after) == symbol.digest:
            continue
        before = text_of(symbol.symbol, old)
        # A diff to another text than the recorded one would show too much.
        is_recorded = before is not None and digest_of(before) == symbol.digest
        names = f"{symbol.symbol} (recorded)", f"{symbol.symbol} (new)"
        diff = unified(before or "", after, *names) if is_recorded else ""
        yield Change(symbol.symbol, False, diff)


def _is_left_out(symbol: UsedSymbol, new: Environment, root: Path) -> bool:
    """Whether the tree at `root` is a whole package that lacks this module.

    The module would then be found in the installed release, and nothing would seem to have
    changed.  A tree without `__init__.py` is meant as a part of a package.
    """
    module = symbol.symbol.rpartition(".")[0]
    path = new.path(module)
    is_whole = (root / module.partition(".")[0] / "__init__.py").is_file()
    return is_whole and not (path is not None and path.is_relative_to(root))


def text_of(symbol: str, env: Environment) -> str | None:
    """The text of the definition `module.name`; None where it is missing."""
    return block.text if (block := find_definition(symbol, env)) else None
