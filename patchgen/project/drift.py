"""Compare variants with another release: `patchgen check --package-root NEW_TREE`.

In: the gate's report, worked out against the new tree, and the records of what each output was made
from.  Out: for each modular file one of four answers, with the upstream diff of every definition
that it uses and that changed.

    the outputs are the same                unaffected
    they differ                             regenerates clean
    a problem, such as an unmatched edit    no longer fits
    a parent has no file or definition      gone
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.compiler.flat import UsedSymbol
from patchgen.project.cache import Cache
from patchgen.project.files import Project
from patchgen.project.lock import Record, mark_of, shorten, split_marks
from patchgen.project.outcome import Outcome, digest_of, digest_of_file, unified
from patchgen.project.overrides import find_definition
from patchgen.project.verdict import Report, Status
from patchgen.syntax.blocks import index
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.kept import recall
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source

# No such module, no such definition: a parent can be gone that no record tells of.
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
    project: Project, report: Report, records: Mapping[Path, Record], cache: Cache
) -> tuple[Drift, ...]:
    """The drift of every modular file, in a run whose parents come from another tree."""
    root = project.package_root
    if root is None:
        return ()
    new = project.environment()
    # Without the tree, modules are found in the installed release.
    old = replace(project, package_root=None).environment()
    records_of: dict[str, list[Record]] = {}
    for record in records.values():
        records_of.setdefault(record.modular, []).append(record)

    @functools.cache
    def is_left_out(module: str) -> bool:
        return _is_left_out(module, new, root)

    @functools.cache
    def is_of_release(module: str) -> bool:
        # A module in the same file with and without `root` belongs to another package.
        return new.path(module) != old.path(module) or is_left_out(module)

    drifts = []
    for outcome in report.outcomes:
        # Without a record, nobody knows what the variant was made from.
        if not outcome.modular.recorded:
            continue
        lacks_module = False
        changes: dict[str, Change] = {}
        answers = cache.load_drift(outcome.modular)
        for record in records_of.get(outcome.modular.display_path, ()):
            for module in filter(is_of_release, record.parents):
                is_gone = is_left_out(module)
                lacks_module |= is_gone
                envs = old, None if is_gone else new
                with answers.at_hand():
                    in_module = _recall_changes(record, module, outcome, envs)
                changes |= {change.symbol: change for change in in_module}
        answers.store()
        in_order = tuple(changes[symbol] for symbol in sorted(changes))
        drifts.append(_judge(outcome, report, in_order, lacks_module))
    return tuple(drifts)


def _judge(
    outcome: Outcome, report: Report, changes: tuple[Change, ...], lacks_module: bool
) -> Drift:
    """The answer for one modular file; `lacks_module` says that a parent's file is missing."""
    display_path = outcome.modular.display_path
    if lacks_module:
        fit = Fit.GONE
    elif outcome.problems:
        lacks_parent = any(problem.code in _NO_PARENT for problem in outcome.problems)
        # Without its parent, everything else that is wrong follows from that.
        is_gone = lacks_parent or any(change.gone for change in changes)
        fit = Fit.GONE if is_gone else Fit.BROKEN
    else:
        # Its definitions may have changed, and give the same output: only the outputs decide.
        verdicts = [each for each in report.verdicts if each.modular == display_path]
        is_same = all(verdict.status is Status.OK for verdict in verdicts)
        fit = Fit.UNAFFECTED if is_same else Fit.CLEAN
    return Drift(display_path, fit, changes, outcome.problems)


def _recall_changes(
    record: Record, module: str, outcome: Outcome, envs: tuple[Environment, Environment | None]
) -> list[Change]:
    """`_find_changes`, or its answer in an earlier run where both files were the same."""
    files = [env and digest_of_file(env.path(module) or "") for env in envs]
    used = []
    for output in outcome.outputs:
        for parent in output.parents:
            used.append((parent.symbol, parent.digest))
    recorded = record.parents[module], record.reads.get(module, "")
    allow_bidi = envs[0].allow_bidi
    kept = recall("drift", module, recorded, files, used, allow_bidi)
    if kept.answer is not None:
        return [Change(*change) for change in kept.answer]
    changes = list(_find_changes(record, module, outcome, envs))
    kept.keep([[change.symbol, change.gone, change.diff] for change in changes])
    return changes


def _find_changes(
    record: Record, module: str, outcome: Outcome, envs: tuple[Environment, Environment | None]
) -> Iterator[Change]:
    """The definitions of `module` that the output uses, and that changed or are gone.

    `envs` are the old release and the new one, None where the new one lacks the module.
    """
    old, new = envs
    digest = digest_of_file(new.path(module) or "") if new else ""
    if digest and record.reads.get(module) == shorten(digest):
        return
    recorded = find_recorded(record, module, old)
    for symbol, before in recorded.items():
        after = text_of(symbol, new) if new else None
        if after is None:
            yield Change(symbol, True, "")
        elif after != before:
            yield _make_change(symbol, before, after)
    # The old release has only some of the recorded texts.  Of the others, what the output uses now
    # tells that they changed, but there is no text to compare it with.
    if len(recorded) < len(split_marks(record.parents[module])):
        for output in outcome.outputs:
            for used in output.parents:
                home, _, name = used.symbol.rpartition(".")
                is_other = home == module and used.symbol not in recorded
                if is_other and not record.has(used) and name.isidentifier():
                    yield Change(used.symbol, False, "")


@functools.lru_cache(maxsize=1024)  # A thousand variants use the same definitions.
def _make_change(symbol: str, before: str, after: str) -> Change:
    diff = unified(before, after, f"{symbol} (recorded)", f"{symbol} (new)")
    return Change(symbol, False, diff)


def find_recorded(record: Record, module: str, env: Environment) -> dict[str, str]:
    """The definitions of `module` that the output was made from, where `env` has that text."""
    if env.path(module) is None:
        return {}
    try:
        marked = _mark_definitions(module, env.source(module, Location(module)))
    except PatchgenError:
        return {}
    marks = split_marks(record.parents.get(module, ""))
    return {symbol: text for symbol, mark, text in marked if mark in marks}


@functools.lru_cache(maxsize=256)
def _mark_definitions(module: str, source: Source) -> tuple[tuple[str, str, str], ...]:
    """(symbol, mark, text) of each definition of `module`, by name; raises as `index`."""
    module_index = index(source)
    marked = []
    for name in sorted(module_index.names):
        block = module_index.definition(name)
        symbol = f"{module}.{name}"
        if block:
            mark = mark_of(UsedSymbol(symbol, digest_of(block.text), ""))
            marked.append((symbol, mark, block.text))
    return tuple(marked)


def _is_left_out(module: str, new: Environment, root: Path) -> bool:
    """Whether the tree at `root` is a whole package that lacks `module`.

    The module would then be found in the installed release, and nothing would seem to have
    changed.  A tree without `__init__.py` is meant as a part of a package.
    """
    path = new.path(module)
    is_whole = (root / module.partition(".")[0] / "__init__.py").is_file()
    return is_whole and not (path is not None and path.is_relative_to(root))


def text_of(symbol: str, env: Environment) -> str | None:
    """The text of the definition `module.name`; None where it is missing."""
    return block.text if (block := find_definition(symbol, env)) else None
