"""Read and write patchgen.lock: what each output was made from.

`check` says from it why an output is stale.  It is checked in; it is sorted and holds no times and
no absolute paths.  It is one JSON object with a line for each output and for what outputs share:

    "file:b18a": ["5.23.0", "transformers.modeling_utils", "0c3f..."]
    "reads:a2c7": ["transformers.models.llama", {".modeling_llama": "b27c..."}]
    "tools:71fe": ["patchgen 0.2.0, ruff ...", "ruff at line length 119", "6251..."]
    "generated/llama/modeling_llama_loss.py": ["modular/llama/modular_llama_loss.py",
        "94fd... 7f89... 104e...", "tools:71fe", "reads:a2c7", {"modeling_llama": "Jc0h..."}, "3d"]

That is the modular file; the digests of it, of the output and of its diff; what is shared; and the
definitions of each file that was read, by its last name.  What is shared stands under a digest of
its text, and no line changes when another output is added.  So git merges two branches that add
some, whatever releases they are for, if `.gitattributes` has `patchgen.lock merge=union`.

A thousand outputs have twenty thousand definitions, and read as many files.  So a definition is not
named: it has a mark of four letters, made of its name and its text.  Whoever has the parent's text
makes the marks of its definitions and looks which of them are recorded (`Record.has`).  The files
that most outputs read, of transformers and torch, are listed for all outputs of a release together.

Digests are the first 96 bits of sha256: `check` compares with what it makes itself, so that nobody
gains from two texts with one digest.  Formats 1 and 2, which had all names and digests for each
output, are still read.

A record is about the run that first gave its output, and is written again only with another output:
what `check` finds right, `convert` leaves alone.  A record can therefore not be compared with the
current run.  Instead it ends with a seal, a digest of its content, by which a change by hand or by
a merge is noticed; `convert` then writes the record again.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.compiler.flat import UsedSymbol
from patchgen.compiler.settings import Settings
from patchgen.project.files import Project, Selection, is_below
from patchgen.project.outcome import Outcome, Output
from patchgen.project.places import LOCK, is_own, lock_of, state_of
from patchgen.project.versions import own_digest, release_in
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import display_module

FORMAT = 3
SEAL = "record_sha256"  # the key of the seal in formats 1 and 2
DIGEST, KEY, MARK = 24, 12, 4  # so many letters are kept of a digest
FIELDS = 6  # of the line of an output
EDITED = "its record was edited by hand"
ABOUT = (
    "Written by `patchgen convert`, read by `patchgen check` and `patchgen "
    "explain`: what each output was made from."
)


@dataclass(frozen=True, slots=True)
class Record:
    """What one output was made from; `output` and `modular` are display paths.

    `flaw` says what is wrong with the entry in patchgen.lock; it is empty for one that patchgen
    wrote.
    """

    output: str
    modular: str
    modular_digest: str
    digest: str
    diff_digest: str
    made_by: str  # "patchgen 0.1.0, libcst 1.9.0, ruff 0.14.10, ..."
    settings: str
    # Every module with a definition that was used, with the marks of all of them.
    parents: Mapping[str, str] = field(default_factory=dict)
    # Every module that was read, with the digest of its file; also those that other outputs of the
    # release read of transformers and torch.
    reads: Mapping[str, str] = field(default_factory=dict)
    own_digest: str = ""  # of patchgen's sources
    flaw: str = ""

    def is_about(self, output: Output) -> bool:
        """Whether the record is intact, and about this output and this diff.

        Its sources may have changed since without an effect on the output: a comment, a definition
        that is overridden, the release of a tool.
        """
        digests = shorten(output.digest), shorten(output.diff_digest)
        return not self.flaw and digests == (self.digest, self.diff_digest)

    def has(self, used: UsedSymbol) -> bool:
        """Whether the output was made from this text of a definition."""
        module = used.symbol.rpartition(".")[0]
        return mark_of(used) in split_marks(self.parents.get(module, ""))


def shorten(digest: str) -> str:
    """The letters of a digest that are recorded."""
    return digest[:DIGEST]


def mark_of(used: UsedSymbol) -> str:
    """What stands for a definition and its text."""
    digest = hashlib.sha256(f"{used.symbol} {used.digest}".encode()).digest()
    return base64.urlsafe_b64encode(digest)[:MARK].decode()


def split_marks(marks: str) -> frozenset[str]:
    """The marks of which `marks` is made: "Jc0h3kQx" has two."""
    return frozenset(marks[first : first + MARK] for first in range(0, len(marks), MARK))


def marks_of(parents: Iterable[UsedSymbol]) -> dict[str, str]:
    """For each module, the marks of its definitions in one text."""
    marks: dict[str, set[str]] = {}
    for used in parents:
        module, _, name = used.symbol.rpartition(".")
        # A statement without a name ("<import 2>") has one that counts the others above it.
        if name.isidentifier():
            marks.setdefault(module, set()).add(mark_of(used))
    return {module: "".join(sorted(marks[module])) for module in sorted(marks)}


def load_records(project: Project, selection: Selection | None = None) -> dict[Path, Record]:
    """The records of every place that a run may write to, by the paths of outputs.

    With `selection`, those of places where the run has no folder are left out.  With `--out`, the
    project's own records are left out, because they are about other files.
    """
    roots = project.writable
    if project.out is not None:
        roots = () if is_own(project, project.out) else (project.out,)
    records: dict[Path, Record] = {}
    for root in roots:
        if selection is not None and not _is_touched(project, root, selection):
            continue
        base = base_of(project, root)
        for name, record in read_lock(lock_of(project, root)).items():
            records[base / name] = record
    return records


def _is_touched(project: Project, root: Path, selection: Selection) -> bool:
    """Whether the run has a folder below or around `root`."""
    if selection.whole and is_own(project, root):
        return True
    folders = {*selection.folders, *(modular.folder for modular in selection.modulars)}
    return any(is_below(folder, root) or is_below(root, folder) for folder in folders)


def base_of(project: Project, root: Path) -> Path:
    """The folder that the names in the records of `root` start from.

    All places inside the project share one file of records.
    """
    return project.home if state_of(project, root) == state_of(project, project.home) else root


def make_record(
    name: str, outcome: Outcome, output: Output, made_by: str, settings: Settings
) -> Record:
    """The record of an output that has just been written."""
    return Record(
        name,
        outcome.modular.display_path,
        shorten(outcome.digest),
        shorten(output.digest),
        shorten(output.diff_digest),
        made_by,
        describe(settings),
        marks_of(output.parents),
        modules_read(outcome),
        shorten(own_digest()),
    )


def modules_read(outcome: Outcome) -> dict[str, str]:
    """Every module that `outcome` depends on, with the digest of its file, sorted."""
    # The modular file has a field of its own in the record.
    modular = str(outcome.modular.path)
    reads = [read for read in outcome.reads if read.module and read.path != modular]
    return dict(sorted((display_module(module), shorten(digest)) for _, digest, module in reads))


def describe(settings: Settings) -> str:
    """The settings that shape an output, in words."""
    parts = [f"{settings.formatter} at line length {settings.line_length}"]
    if settings.flatten:
        parts.append(f"flattens {', '.join(settings.flatten)}")
    parts += [f"{decorator} goes with {method}" for decorator, method in settings.decorators]
    return "; ".join(parts)


# The text of patchgen.lock


def render_lock(records: Iterable[Record]) -> str:
    """The text of patchgen.lock."""
    lines: dict[str, Any] = {}
    for record in records:
        lines[record.output] = _make_entry(record, lines)
    written = [("about", ABOUT), *sorted(lines.items())]
    # The last line has no comma, so it is never one that is added.
    written.append(("format", FORMAT))
    entries = []
    for key, value in written:
        text = json.dumps({key: value}, ensure_ascii=False)
        entries.append(text[1:-1])
    body = ",\n".join(entries)
    return f"{{\n{body}\n}}\n"


def _make_entry(record: Record, lines: dict[str, Any]) -> list[Any]:
    """The line of one output, sealed; what it shares with others is added to `lines`."""

    def share(kind: str, value: object) -> str:
        key = _make_key(kind, value)
        lines[key] = value
        return key

    own: dict[str, dict[str, str]] = {}
    for module, digest in sorted(record.reads.items()):
        if _READ_BY_MOST.match(module):
            share("file", [release_in(record.made_by), module, digest])
        else:
            package = ".".join(module.split(".")[:3])
            own.setdefault(package, {})[module.removeprefix(package)] = digest
    modules = _modules_by_name(own.items())
    names = {module: name for name, module in modules.items()}
    tools = share("tools", [record.made_by, record.settings, record.own_digest])
    reads = [share("reads", [package, files]) for package, files in own.items()]
    entry = [
        record.modular,
        f"{record.modular_digest} {record.digest} {record.diff_digest}",
        tools,
        " ".join(reads),
        {names.get(module, module): marks for module, marks in record.parents.items()},
    ]
    # What was edited stays so until it is made anew.
    return [*entry, "" if record.flaw else _digest([record.output, entry])[:KEY]]


_READ_BY_MOST = re.compile(r"(transformers(?!\.models\.)|torch)\b")


def _modules_by_name(packages: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The modules of packages by their last names; of two with one name, the last one."""
    modules = {}
    for package, files in packages:
        for rest in files:
            module = f"{package}{rest}"
            modules[module.rpartition(".")[2]] = module
    return modules


def _digest(value: object) -> str:
    """The digest of `value`, whatever its layout."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _make_key(kind: str, value: object) -> str:
    """The key of a line that outputs share, such as "tools:71fe"."""
    return f"{kind}:{_digest(value)[:KEY]}"


# And back


def read_lock(path: Path) -> Mapping[str, Record]:
    """The records by output; none when there is no file.

    Raises PatchgenError PG507 when the file cannot be understood, for example because of merge
    conflicts.
    """
    try:
        text = disk.read_text(path, disk.RECORD)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _not_understood(error) from error
    return _parse(text)


def parse_lock(text: str) -> Mapping[str, Record]:
    """As `read_lock`, of the text of the file; none when it is empty."""
    return _parse(text) if text else {}


@functools.lru_cache(maxsize=1)  # A run asks again when it holds the lock for writing.
def _parse(text: str) -> Mapping[str, Record]:
    repeated: list[str] = []
    try:
        # json takes the last of two equal keys without a word; a merge can leave both.
        data = json.loads(text, object_pairs_hook=lambda pairs: _make_object(pairs, repeated))
        fields = _lift_outputs(data)
        outputs = []
        shared = {}
        for key, value in fields.items():
            # An entry that somebody edited may be about anything, or say nothing.
            if key.endswith(".py") or _is_entry(value):
                outputs.append(key)
            if _is_shared(key, value):
                shared[key] = value
        flaw = _find_flaw(fields, [*outputs, *shared], repeated)
        # Under its own name, a release gets the files that most of its outputs read.
        files = [value for key, value in shared.items() if key.startswith("file:")]
        for release, module, digest in files:
            shared.setdefault(release, {})[module] = digest
        return {key: _read_entry(key, fields[key], shared, flaw) for key in outputs}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_understood(error) from error


def _lift_outputs(data: dict[str, Any]) -> dict[str, Any]:
    """All entries on one level: in format 1, those of outputs were in a table of their own.

    Raises ValueError for a format that is not known.
    """
    written = data["format"]
    # The type too: `true` and `1.0` are equal to 1.
    if repr(written) not in ("1", "2", str(FORMAT)):
        raise ValueError(f"it has format {written}, this patchgen writes {FORMAT}")
    return {**data.pop("outputs"), **data} if written == 1 else data


def _not_understood(error: Exception) -> PatchgenError:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
    at = Location(LOCK, line, 1 if line else 0)
    hint = "delete it and run `patchgen convert`: it is made anew"
    why = "is not a lock of patchgen"
    if isinstance(error, RecursionError):
        why = "cannot be read: it is nested too deeply"
    # JSON's own errors are ValueErrors, and so is another format.
    elif isinstance(error, (OSError, ValueError)):
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return PatchgenError("PG507", at, why, hint)


def _make_object(pairs: list[tuple[str, Any]], repeated: list[str]) -> dict[str, Any]:
    """A JSON object as a dictionary; keys that have two values are added to `repeated`.

    Raises ValueError for a character that nobody sees.
    """
    table = dict(pairs)
    for text in (*table, *table.values()):
        if isinstance(text, str) and not text.isprintable():
            raise ValueError(f"{text!r} has an invisible character")
    if len(table) < len(pairs):
        for key, value in pairs:
            # Where two branches add a line that others share, git can leave it twice.
            if table[key] != value:
                repeated.append(key)
    return table


def _is_entry(value: object) -> bool:
    """Whether `value` looks like the record of an output, in any of the formats."""
    return len(value) == FIELDS if isinstance(value, list) else SEAL in str(value)


def _is_shared(key: str, value: object) -> bool:
    """Whether this is a line that outputs share, and that nobody has changed since."""
    kind = key.partition(":")[0]
    return kind in ("file", "reads", "tools") and key == _make_key(kind, value)


def _find_flaw(data: Mapping[str, Any], known: list[str], repeated: list[str]) -> str:
    """What is wrong with the file as a whole, so that all records are written again."""
    unknown = sorted(data.keys() - {"about", "format", *known})
    if repeated:
        return f"{LOCK} has the key {repeated[0]!r} twice"
    if unknown:
        return f"{LOCK} has the key {unknown[0]!r}, which patchgen does not write"
    return "" if data.get("about") == ABOUT else f"the first line of {LOCK} was edited by hand"


def _read_entry(output: str, entry: Any, shared: Mapping[str, Any], flaw: str) -> Record:
    """The record of `output` from `entry`; an empty one with a flaw where that is not possible."""
    try:
        if isinstance(entry, list):
            return _read_line(output, entry, shared, flaw)
        return _read_table(output, entry, flaw)
    except (KeyError, AttributeError, TypeError, ValueError):
        return Record(output, "", "", "", "", "", "", flaw=EDITED)


def _read_line(output: str, entry: list[Any], shared: Mapping[str, Any], flaw: str) -> Record:
    """The record of a line, as `_make_entry` writes it, and of the `shared` lines that it names."""
    modular, digests, tools, reads, parents, seal = entry
    modular_digest, digest, diff_digest = digests.split(" ")
    # A merge can take a line away that only the other branch still needed: then less is known.
    made_by, settings, own_digest = map(str, shared.get(tools, ("", "", "")))
    own = [shared.get(key, ("", {})) for key in reads.split()]
    modules = _modules_by_name(own)
    read = dict(shared.get(release_in(made_by), {}))
    for package, files in own:
        read |= {f"{package}{rest}": str(digest) for rest, digest in files.items()}
    return Record(
        output,
        str(modular),
        modular_digest,
        digest,
        diff_digest,
        made_by,
        settings,
        {modules.get(key, key): str(marks) for key, marks in parents.items()},
        read,
        own_digest,
        flaw if seal == _digest([output, entry[:-1]])[:KEY] else EDITED,
    )


def _read_table(output: str, entry: dict[str, Any], flaw: str) -> Record:
    """The record of an entry of format 1 or 2."""
    sealed = {key: value for key, value in entry.items() if key != SEAL}
    used = []
    for path, symbols in entry["parents"].items():
        for symbol, digest in symbols.items():
            used.append(UsedSymbol(symbol, str(digest), path))
    return Record(
        output,
        str(entry["modular"]),
        shorten(str(entry["modular_sha256"])),
        shorten(str(entry["output_sha256"])),
        shorten(str(entry["diff_sha256"])),
        str(entry["made_by"]),
        str(entry["settings"]),
        marks_of(used),
        {module: shorten(str(digest)) for module, digest in entry["reads"].items()},
        shorten(str(entry["patchgen_sha256"])),
        flaw if entry.get(SEAL) == _digest([output, sealed]) else EDITED,
    )
