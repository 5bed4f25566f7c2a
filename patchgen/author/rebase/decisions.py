"""The decisions of people on changes that were left to them, used for the next variant.

`patchgen rebase --write` records what it leaves open in patchgen.decisions.toml.  When somebody has
solved it in the modular file, the next run takes what stands there as the decision, and applies it
wherever the same conflict is met: the same change of upstream under the same declaration.

    ["LlamaForCausalLM.forward"."8f3a2b1c9d0e4f56"]
    modular = "modular/llama/modular_llama_cap.py"
    conflict = "logits means something else where the declaration reads it"
    upstream = ...          what upstream changed
    declared = ...          the declaration at that time
    decision = ...          what it should say instead; or "keep", or "drop"
"""

from __future__ import annotations

import ast
import hashlib
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.cases import CLASS, DROP, KEEP, Case, Result
from patchgen.author.rebase.declared import Declared, declared_changes
from patchgen.author.rebase.rewriting import Rewritten
from patchgen.author.rebase.state import State
from patchgen.project.overrides import write_table
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.regular import read_regular_text
from patchgen.syntax.same import plain_text, says_same
from patchgen.syntax.text import read_source

FILE = "patchgen.decisions.toml"
ABOUT = """\
# What people decided where `patchgen rebase` left a change to them.  An entry without a `decision`
# is open: solve it in the modular file, and the next `patchgen rebase --write` fills it in; or
# write here what the declaration should say, or "keep", or "drop".
"""
_FIELDS = ("modular", "conflict", "upstream", "declared")


@dataclass(frozen=True)
class Entry:
    """A conflict and its decision, which is empty while the conflict is open.

    `name` is that of the change, `key` says which conflict it is.
    """

    name: str
    key: str
    modular: str
    conflict: str
    upstream: str
    declared: str
    decision: str = ""


Entries = Mapping[str, Entry]  # by key


def conflict_key(result: Result) -> str:
    """A key that equal conflicts share: the parent before and after, and the declaration."""
    declared = [plain_text(node) for node in result.change.nodes]
    key = "\0".join([result.before, result.after, *declared])
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def make_entry(result: Result, modular: File, display_path: str) -> Entry:
    """The open entry of a change that is left to a person."""
    conflict = "; ".join(clash.what for clash in result.clashes)
    upstream = "\n".join([*result.upstream, ""])
    declared = declared_text(result.change, modular)
    return Entry(
        result.change.name, conflict_key(result), display_path, conflict, upstream, declared
    )


def declared_text(change: Declared, modular: File) -> str:
    """The statements of a declared change, at the margin."""
    pieces = []
    for node in change.nodes:
        lines = modular.source.lines[first_line(node) - 1 : node.end_lineno or 0]
        pieces.append(textwrap.dedent("".join(lines)).rstrip("\n") + "\n")
    return "\n".join(pieces)


# What was decided before


def decided_changes(
    cases: Iterable[Case], decisions: Mapping[str, str]
) -> dict[Declared, Rewritten]:
    """The new texts of changes that are open and were decided before; their cases say so."""
    found: dict[Declared, Rewritten] = {}
    for case in cases:
        decision = decisions.get(conflict_key(case.result), "") if case.result.is_open else ""
        if not decision:
            continue
        case.decision = decision
        case.result = replace(case.result, state=State.DECIDED, clashes=())
        if decision not in (KEEP, DROP):
            margin = " " * 4 if case.change.owner else ""
            text = textwrap.indent(textwrap.dedent(decision).strip("\n"), margin)
            found[case.change] = Rewritten(case.change, tuple(text.split("\n")), ())
    return found


# What was solved in modular files


def learn(entries: Entries, home: Path) -> Entries:
    """`entries` with the decisions that people have made in modular files since."""
    return {
        key: replace(entry, decision=_decided(entry, home)) if not entry.decision else entry
        for key, entry in entries.items()
    }


def _decided(entry: Entry, home: Path) -> str:
    """The text in the modular file in place of what was declared; "" if it is the same."""
    path = home / entry.modular
    try:
        modular = read_file(read_source(path, display_path=entry.modular))
    except PatchgenError:
        # A file that is gone, or that somebody is writing, decides nothing.
        return ""
    for change in declared_changes(modular):
        if change.name == entry.name:
            text = declared_text(change, modular)
            return "" if says_same(text, entry.declared) else text
    # In a class that is still there, the change was taken out; a class may just have a new name.
    owner, _, _ = entry.name.rpartition(".")
    return DROP if owner in modular.definitions else ""


def updated(
    entries: Entries, results: Iterable[Result], modular: File, display_path: str
) -> Entries:
    """`entries` with what a run leaves open, and without open ones that it has rewritten itself."""
    found = dict(entries)
    for result in results:
        if result.is_open and result.change.member != CLASS:
            entry = make_entry(result, modular, display_path)
            found.setdefault(entry.key, entry)
        elif result.state not in (State.UNCHANGED, State.MOVED):
            name = result.change.name
            for key, entry in entries.items():
                if not entry.decision and (entry.modular, entry.name) == (display_path, name):
                    found.pop(key, None)
    return found


# The file


def read_decisions(home: Path) -> Entries:
    """The entries of the project at `home`; none where there is no file.

    Raises PatchgenError PG800 where it cannot be understood.
    """
    try:
        data = tomllib.loads(read_regular_text(home / FILE))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _refusal(f"cannot be read: {error}") from error
    entries: dict[str, Entry] = {}
    for name, conflicts in data.items():
        if not isinstance(conflicts, dict):
            raise _refusal(f"{name} is no conflict")
        for key, fields in conflicts.items():
            entries[key] = _read_entry(name, key, fields)
    return entries


def _read_entry(name: str, key: str, fields: object) -> Entry:
    known = {*_FIELDS, "decision"}
    if not isinstance(fields, dict) or not {*_FIELDS} <= fields.keys() <= known:
        raise _refusal(f"the entry {name} {key} has not the fields {', '.join(sorted(known))}")
    if not all(isinstance(value, str) for value in fields.values()):
        raise _refusal(f"the entry {name} {key} has a field that is no text")
    entry = Entry(name, key, **fields)
    entry = replace(entry, decision=entry.decision if entry.decision.strip() else "")
    if entry.decision not in ("", KEEP, DROP):
        try:
            ast.parse(textwrap.dedent(entry.decision))
        except SyntaxError as error:
            what = f"the decision on {name} {key} is no Python: {error.msg}"
            raise _refusal(what) from error
    return entry


def _refusal(what: str) -> PatchgenError:
    hint = "repair the entry, or take it out; nothing was written"
    return PatchgenError("PG800", Location(FILE), what, hint)


def render_decisions(entries: Entries) -> str:
    """The text of the file, sorted by name and key."""
    tables = []
    for entry in sorted(entries.values(), key=lambda one: (one.name, one.key)):
        fields = {key: value for key, value in asdict(entry).items() if key not in ("name", "key")}
        if not entry.decision:
            del fields["decision"]
        tables.append(write_table((entry.name, entry.key), fields))
    return "\n".join([ABOUT, *tables])
