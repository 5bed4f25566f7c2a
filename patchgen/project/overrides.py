"""Find overrides whose parent has changed since somebody looked at it.

In: the overrides of each modular file, with the parents' texts as they are now, and the texts that
patchgen.overrides.toml records.  Out: the stale ones, each with upstream's diff, and the records as
`convert` writes them.

The output of an override has nothing of the parent's text.  So the record of an output cannot tell,
and `convert` must not replace what stands in this file either: only `convert --accept` does.
"""

from __future__ import annotations

import ast
import functools
import json
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen import disk
from patchgen.compiler.flat import Override
from patchgen.project.files import Modular, Project
from patchgen.project.outcome import Outcome, unified
from patchgen.project.places import is_own
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.same import says_same

if TYPE_CHECKING:
    from patchgen.syntax.blocks import Block

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
        name = self.override.name
        parent = self.before.symbol
        what = f"{name} overrides {parent}, which has changed"
        if not self.override.parent:
            what = f"{name} was written to override {parent}, which is gone"
        accept = f"`patchgen convert --accept {self.modular}`"
        diff = textwrap.indent(self.diff.rstrip("\n"), " " * 8)
        hint = f"change the override if it has to follow, then run {accept}\n{diff}"
        return Problem(self.override.at, "PG510", what, hint)


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
    outcomes: Iterable[Outcome],
    recorded: Records,
    env: Environment,
    *,
    accept: bool,
    whole: bool,
) -> OverrideReport:
    """Compare the overrides of `outcomes` with the records; with `accept`, stale ones are accepted.

    A modular file that does not convert keeps its records, and so do those outside the run, unless
    it is about the `whole` project.
    """
    outcomes = [outcome for outcome in outcomes if outcome.modular.recorded]
    in_run = {outcome.modular.display_path for outcome in outcomes}
    records = {}
    for path, names in recorded.items():
        if path in in_run or (not whole and (env.home / path).exists()):
            records[path] = names
    # A file that was moved takes its records along.
    lost = [names for path, names in recorded.items() if path not in records]
    stale: list[StaleOverride] = []
    accepted: list[StaleOverride] = []
    unrecorded = [_unknown(path) for path in recorded if whole and path not in records]
    for outcome in outcomes:
        path = outcome.modular.display_path
        before = recorded.get(path, {})
        if any(problem.code == "PG101" for problem in outcome.problems):
            continue  # a parent is not there to be compared, which is the problem
        if outcome.problems:
            stale += _stale_of_failed(outcome.modular, before, env)
            continue
        changed = list(_stale(outcome, before, lost))
        # Overrides that are gone lose their records.
        now = dict(_now(outcome, before, lost, changed, accept=accept))
        (accepted if accept else stale).extend(changed)
        if now != before:
            unrecorded.append(_unrecorded(path, before, now))
        records[path] = now
    return OverrideReport(
        tuple(sorted(stale, key=lambda stale: stale.override.at)),
        tuple(sorted(accepted, key=lambda stale: stale.override.at)),
        {path: names for path, names in records.items() if names},
        tuple(unrecorded),
    )


def _stale(outcome: Outcome, before: Names, lost: Sequence[Names]) -> Iterator[StaleOverride]:
    """The overrides whose recorded parent says something else than today's."""
    names = {override.name for override in outcome.overrides}
    for override in outcome.overrides:
        parent = _find_record(override, names, before, lost)
        if parent is not None and not says_same(parent.text, override.text):
            yield StaleOverride(outcome.modular.display_path, override, parent)


def _now(
    outcome: Outcome,
    before: Names,
    lost: Sequence[Names],
    stale: Sequence[StaleOverride],
    *,
    accept: bool,
) -> Iterator[tuple[str, Parent]]:
    """The records of a modular file after `convert`: new overrides, and those that are recorded."""
    names = {override.name for override in outcome.overrides}
    changed = {override.override.name for override in stale}
    for override in sorted(outcome.overrides, key=lambda override: override.name):
        parent = _find_record(override, names, before, lost)
        if parent is None or (accept and override.name in changed):
            parent = Parent(override.parent, override.text) if override.parent else None
        # The text that is recorded stays, also where the new one only looks different.
        if parent is not None:
            yield override.name, parent


def _find_record(
    override: Override, names: set[str], before: Names, lost: Sequence[Names]
) -> Parent | None:
    """The record of an override, also if its class or its file has another name by now."""
    if override.name in before:
        return before[override.name]
    parents = [parent for name, parent in before.items() if name not in names]
    for moved in lost:
        parents += moved.values()
    # It is the same override if it still overrides the same member.
    return next((parent for parent in parents if parent.symbol == override.parent), None)


def _unrecorded(path: str, before: Names, now: Names) -> Problem:
    """The problem of records that `convert` would change."""
    every = sorted(before.keys() | now.keys())
    names = [name for name in every if before.get(name) != now.get(name)]
    listed = ", ".join(names[:3])
    more = len(names[3:])
    if more:
        listed += f" and {more} more"
    what = f"does not record what {path} overrides by now: {listed}"
    return Problem(Location(FILE), "PG511", what, "run `patchgen convert`")


def _unknown(path: str) -> Problem:
    what = f"records overrides of {path}, which is no modular file of the project"
    return Problem(Location(FILE), "PG511", what, "run `patchgen convert`")


def accept_parents(
    project: Project, path: str, overridden: Collection[str], env: Environment
) -> None:
    """Record the parents of some overrides of a modular file as `env` has them."""
    records = load_overrides(project)
    names = dict(records.get(path, {}))
    for name in names.keys() & {*overridden}:
        text = _text_of(names[name].symbol, "." in name, env)
        if text and not says_same(text, names[name].text):
            names[name] = Parent(names[name].symbol, text)
    if names != records.get(path, {}):
        text = render_overrides({**records, path: names})
        disk.write(project.home / FILE, text, project.writable)


# The overrides of a modular file that does not convert.  One class that is gone upstream stops it,
# and a person who repairs the file needs all that is stale.  They are known by their records only.


def _stale_of_failed(modular: Modular, before: Names, env: Environment) -> Iterator[StaleOverride]:
    """The stale overrides of a modular file that does not convert."""
    for name, parent in before.items():
        at = _place_of(name, modular)
        # "LlamaMLP.forward" is a member, "apply_rope" a definition of the module.
        text = _text_of(parent.symbol, "." in name, env) if at is not None else ""
        if at is not None and not says_same(parent.text, text):
            override = Override(at, name, parent.symbol if text else "", text)
            yield StaleOverride(modular.display_path, override, parent)


def _place_of(name: str, modular: Modular) -> Location | None:
    """Where the modular file has the override; the whole file where it is no Python."""
    try:
        body = ast.parse(disk.read_text(modular.path)).body
    except (OSError, ValueError, SyntaxError):
        return Location(modular.display_path)
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((node for node in body if part in _names(node)), None)
        # Nothing else has members that override.
        body = node.body if isinstance(node, ast.ClassDef) else []
    return (
        None if node is None else Location(modular.display_path, node.lineno, node.col_offset + 1)
    )


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement may override by."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _text_of(symbol: str, is_member: bool, env: Environment) -> str:
    """The text of "module.name", or of "module.Class.name"; "" where it is gone."""
    if not is_member:
        definition = find_definition(symbol, env)
        return definition.text if definition is not None else ""
    owner, _, name = symbol.rpartition(".")
    definition = find_definition(owner, env)
    if definition is None or definition.kind != "class":
        return ""
    # A run in which every file converts need not load what makes outputs.
    from patchgen.compiler.emit.outputs import read_member

    return read_member(definition.text, owner.rpartition(".")[2], name)


def find_definition(symbol: str, env: Environment) -> Block | None:
    """The definition "module.name"; None where it cannot be found or read."""
    module, _, name = symbol.rpartition(".")
    if env.path(module) is None:
        return None
    try:
        return env.index(module, Location(module)).definition(name)
    except PatchgenError:
        return None


# The file


def load_overrides(project: Project) -> Records:
    """The recorded texts below overrides; with `--out`, outputs have no records.

    Raises PatchgenError PG512 where the file cannot be understood, for example because of merge
    conflicts.
    """
    if project.out is not None or not is_own(project, project.home):
        return {}
    return read_overrides(project.home)


def read_overrides(home: Path) -> Records:
    """The recorded texts of the project at `home`; raises as `load_overrides`."""
    try:
        text = disk.read_text(home / FILE)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        raise _not_understood(getattr(error, "strerror", None) or str(error)) from error
    return parse_overrides(text)


@functools.lru_cache(maxsize=1)  # as of the lock
def parse_overrides(text: str) -> Records:
    """The recorded texts in the text of the file; raises as `load_overrides`."""
    try:
        data = tomllib.loads(text)
        return {path: _read_names(path, names) for path, names in data.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        says_why = isinstance(error, (tomllib.TOMLDecodeError, UnicodeError))
        raise _not_understood(str(error) if says_why else "it has other entries") from error


def _not_understood(why: str) -> PatchgenError:
    hint = "repair it, or bring it back from git; without it, all parents count as looked at"
    return PatchgenError("PG512", Location(FILE), f"cannot be read: {why}", hint)


def _read_names(path: str, names: Mapping[str, Mapping[str, str]]) -> Names:
    """The records of the modular file `path`.

    Raises ValueError for other entries, and UnicodeError for a name that cannot be shown.
    """
    parents = {}
    for name, entry in names.items():
        for text in (path, name, entry["parent"]):
            if not text.isprintable():
                raise UnicodeError(f"{text!r} has an invisible character")
        # A number or a date is as good TOML as a text.
        is_text = isinstance(entry["parent"], str) and isinstance(entry["text"], str)
        if not is_text or len(entry) > 2:
            raise ValueError(name)
        parents[name] = Parent(entry["parent"], entry["text"])
    return parents


def render_overrides(records: Records) -> str:
    """The text of patchgen.overrides.toml, sorted; "" where there is nothing to record."""
    lines = []
    for path, names in sorted(records.items()):
        for name, parent in sorted(names.items()):
            entry = f"parent = {_quoted(parent.symbol)}, text = {_quoted(parent.text)}"
            # One line: git merges the lines of two branches, also where they stand in one place.
            lines.append(f"{_quoted(path)}.{_quoted(name)} = {{ {entry} }}\n")
    return "".join([ABOUT, "\n", *lines]) if lines else ""


def _quoted(value: str) -> str:
    # TOML's strings have the escapes of JSON, and forbid one letter more.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
