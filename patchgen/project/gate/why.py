"""Explain why an output is stale: what changed since it was recorded.

In: the record, what the modular file gives now, and the files on disk.  Out: reasons in words, none
without a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchgen.project.batch.outcome import Made, Outcome
from patchgen.project.gate.lock import Record, modules_read
from patchgen.project.versions import own_digest

NAMED = 3  # definitions of one module that are named before they are counted


def reasons(
    record: Record | None,
    outcome: Outcome,
    made: Made,
    present: Mapping[str, str],
    made_by: str,
    settings: str,
) -> tuple[str, ...]:
    """What changed; `present` maps files that are not right to their digests on disk."""
    if record is None:
        return ()
    if record.flaw:
        return (record.flaw,)
    found = [f"{name} was edited by hand" for name in find_edited(record, made, present)]
    if (record.digest, record.diff_digest) == (made.digest, made.diff_digest):
        return tuple(found)  # The result is what was recorded: nothing but the files changed.
    same_modular = record.modular_digest == outcome.digest
    if not same_modular:
        found.append("the modular file changed")
    found += _parents(record, made, same_modular)
    if record.settings != settings:
        found.append(f"the settings changed: {record.settings} -> {settings}")
    tools = _releases(record.made_by, made_by)
    if tools:
        found.append(f"the tool changed: {', '.join(tools)}")
    return tuple(found or _beyond_definitions(record, outcome))


def find_edited(record: Record | None, made: Made, present: Mapping[str, str]) -> tuple[str, ...]:
    """The files that are neither missing nor what was recorded; none without a sound record."""
    if record is None or record.flaw:
        return ()
    known = {made.name: record.digest, made.diff_name: record.diff_digest}
    # What is missing was not edited, and a verdict of its own says so.
    return tuple(name for name in sorted(present) if present[name] not in ("", known[name]))


def _beyond_definitions(record: Record, outcome: Outcome) -> list[str]:
    """What changed where all definitions that the output was made from are the same.

    That is a file that was only read, or patchgen's own code.
    """
    before, after = dict(record.reads), dict(modules_read(outcome))
    every = sorted(before.keys() | after.keys())
    modules = [module for module in every if before.get(module) != after.get(module)]
    found = [f"the parent changed: {named(modules)}"] if modules else []
    if record.own_digest != own_digest():
        found.append("patchgen itself changed")
    return found


def _parents(record: Record, made: Made, same_modular: bool) -> list[str]:
    """The parents' definitions that changed."""
    before = {used.symbol: used.digest for used in record.parents}
    after = {used.symbol: used.digest for used in made.parents}
    both = sorted(before.keys() & after.keys())
    changed = [symbol for symbol in both if before[symbol] != after[symbol]]
    # Another modular file uses other definitions, of which none need have changed.
    if not changed and same_modular:
        changed = sorted(before.keys() ^ after.keys())
    if not changed:
        return []
    # A statement without a name ("<import 2>") tells a reader little; where named ones changed too,
    # it is left out.
    with_names = [symbol for symbol in changed if not symbol.endswith(">")]
    return [f"the parent changed: {named(with_names or changed)}"]


def named(symbols: Sequence[str]) -> str:
    """Definitions in words; many of one module are counted, and the first few named."""
    modules: dict[str, list[str]] = {}
    for symbol in symbols:
        module, _, name = symbol.rpartition(".")
        modules.setdefault(module, []).append(name)
    return ", ".join(_of_module(module, names) for module, names in modules.items())


def _of_module(module: str, names: Sequence[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(f"{module}.{name}" for name in names)
    return f"{len(names)} definitions of {module} ({', '.join(names[:NAMED])}, ...)"


def _releases(old: str, new: str) -> list[str]:
    """The tools whose release changed, each with both releases."""
    before, after = ({name: release for name, _, release in _pairs(text)} for text in (old, new))
    # The formatter may be another tool by now.
    names = sorted(before.keys() | after.keys())
    differing = [name for name in names if before.get(name) != after.get(name)]
    return [
        f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}" for name in differing
    ]


def _pairs(text: str) -> list[tuple[str, str, str]]:
    return [part.partition(" ") for part in text.split(", ")]
