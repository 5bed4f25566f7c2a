"""Read and write patchgen.lock: what each output was made from.

People read the file, and `check` says from it why an output is stale.  It is checked in; it is
sorted and holds no times and no absolute paths.  It is one JSON object with a line for each output,
and no other line changes when one is added: so git can merge two branches that add some, if
`.gitattributes` has `patchgen.lock merge=union`.  The former form, of format 1, is still read.

A record is about the run that first gave its output, and is written again only with another output:
what `check` finds right, `convert` leaves alone.  A record can therefore not be compared with the
current run.  Instead it ends with a digest of its content, by which a change by hand or by a merge
is noticed; `convert` then writes the record again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from patchgen import disk
from patchgen.compiler.flat import UsedSymbol
from patchgen.compiler.settings import Settings
from patchgen.project.files import Project, Selection, is_below
from patchgen.project.outcome import Outcome, Output
from patchgen.project.places import LOCK, is_own, lock_of, state_of
from patchgen.project.versions import own_digest
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import display_module

FORMAT = 2
SEAL = "record_sha256"
EDITED = "its record was edited by hand"
ABOUT = (
    "Written by `patchgen convert`, read by `patchgen check` and `patchgen "
    "explain`: what each output was made from."
)


@dataclass(frozen=True, slots=True)
class Record:
    """What one output was made from.  Digests are sha256; `output` and `modular` are display paths.

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
    parents: tuple[UsedSymbol, ...]
    # Every module that was read, with the digest of its file.
    reads: tuple[tuple[str, str], ...] = ()
    own_digest: str = ""  # of patchgen's sources
    flaw: str = ""

    def is_about(self, output: Output) -> bool:
        """Whether the record is intact, and about this output and this diff.

        Its sources may have changed since without an effect on the output: a comment, a definition
        that is overridden, the release of a tool.
        """
        digests = self.digest, self.diff_digest
        return not self.flaw and digests == (output.digest, output.diff_digest)


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """An output, the modular file that gives it, and the tools that made it."""

    output: str
    modular: str
    made_by: str


_Entry = TypeVar("_Entry")


class LazyRecords(Mapping[Path, Record]):
    """The records of outputs by their paths, each read from its entry when it is first asked for.

    The check of an unchanged copy of transformers asks for none of its hundreds.
    """

    def __init__(self, readers: Mapping[Path, Callable[[], Record]]) -> None:
        self._readers = readers

    def __getitem__(self, path: Path) -> Record:
        return self._readers[path]()

    def __iter__(self) -> Iterator[Path]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def load_records(project: Project, selection: Selection | None = None) -> LazyRecords:
    """The records of every place that a run may write to, by the paths of outputs.

    With `selection`, those of places where the run has no folder are left out.  With `--out`, the
    project's own records are left out, because they are about other files.
    """
    roots = project.writable
    if project.out is not None:
        roots = () if is_own(project, project.out) else (project.out,)
    readers: dict[Path, Callable[[], Record]] = {}
    for root in roots:
        if selection is not None and not _is_touched(project, root, selection):
            continue
        base = base_of(project, root)
        for name, reader in _read(lock_of(project, root), _record_later).items():
            readers[base / name] = reader
    return LazyRecords(readers)


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
        outcome.digest,
        output.digest,
        output.diff_digest,
        made_by,
        describe(settings),
        output.parents,
        modules_read(outcome),
        own_digest(),
    )


def modules_read(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """Every module that `outcome` depends on, with the digest of its file, sorted."""
    # The modular file has a field of its own in the record.
    modular = str(outcome.modular.path)
    read = [read for read in outcome.reads if read.module and read.path != modular]
    return tuple(sorted((display_module(module), digest) for _, digest, module in read))


def describe(settings: Settings) -> str:
    """The settings that shape an output, in words."""
    parts = [f"{settings.formatter} at line length {settings.line_length}"]
    if settings.flatten:
        parts.append(f"flattens {', '.join(settings.flatten)}")
    parts += [f"{decorator} goes with {method}" for decorator, method in settings.decorators]
    return "; ".join(parts)


def read_lock(path: Path) -> dict[str, Record]:
    """The records by output; none when there is no file.

    Raises PatchgenError PG507 when the file cannot be understood, for example because of merge
    conflicts.
    """
    return _read(path, _record)


def parse_lock(text: str) -> dict[str, Record]:
    """As `read_lock`, of the text of the file; none when it is empty."""
    return _parse(text, _record) if text else {}


def read_outputs(path: Path) -> tuple[RecordedOutput, ...]:
    """The outputs that are recorded, as `read_lock` finds and refuses them.

    What else was recorded is not looked at: that takes five times as long.
    """
    return tuple(_read(path, _recorded_output).values())


def _read(path: Path, read_entry: Callable[[str, Any, str], _Entry]) -> dict[str, _Entry]:
    """What `read_entry` makes of each output, its entry, and what is wrong with the whole file."""
    try:
        text = disk.read_text(path, disk.RECORD)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _not_understood(error) from error
    return _parse(text, read_entry)


def _parse(text: str, read_entry: Callable[[str, Any, str], _Entry]) -> dict[str, _Entry]:
    repeated: list[str] = []
    try:
        # json takes the last of two equal keys without a word; a merge can leave both.
        data = json.loads(text, object_pairs_hook=lambda pairs: _keyed(pairs, repeated))
        fields = _fields(data)
        # An entry that somebody edited may be about anything, or say nothing.
        outputs = [key for key in fields if key.endswith(".py") or SEAL in str(fields[key])]
        flaw = _flaw(fields, outputs, repeated)
        return {key: read_entry(key, fields[key], flaw) for key in outputs}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_understood(error) from error


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """The fields as the file has them now; in format 1, outputs were in a table of their own."""
    written = data["format"]
    # The type too: `true` and `1.0` are equal to 1.
    if repr(written) not in ("1", str(FORMAT)):
        raise ValueError(f"it has format {written}, this patchgen writes {FORMAT}")
    return data if written == FORMAT else {**data.pop("outputs"), **data}


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


def _keyed(pairs: list[tuple[str, Any]], repeated: list[str]) -> dict[str, Any]:
    """A JSON object as a dictionary; keys of several pairs are added to `repeated`."""
    table = dict(pairs)
    texts = [*table, *(value for value in table.values() if isinstance(value, str))]
    if not "".join(texts).isprintable():
        unseen = next(text for text in texts if not text.isprintable())
        raise ValueError(f"{unseen!r} has an invisible character")
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated += [key for key in table if keys.count(key) > 1]
    return table


def _flaw(data: Mapping[str, Any], outputs: list[str], repeated: list[str]) -> str:
    """What is wrong with the file as a whole, so that all records are written again."""
    unknown = sorted(data.keys() - {"about", "format", *outputs})
    if repeated:
        return f"{LOCK} has the key {repeated[0]!r} twice"
    if unknown:
        return f"{LOCK} has the key {unknown[0]!r}, which patchgen does not write"
    return "" if data.get("about") == ABOUT else f"the first line of {LOCK} was edited by hand"


def render_lock(records: Iterable[Record]) -> str:
    """The text of patchgen.lock."""
    ordered = sorted(records, key=lambda record: record.output)
    lines = [_line("about", ABOUT)]
    lines += [_line(record.output, _entry(record)) for record in ordered]
    # The last line has no comma, so it is never one that is added.
    lines.append(_line("format", FORMAT))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(key: str, value: object) -> str:
    return json.dumps({key: value}, ensure_ascii=False)[1:-1]


# The texts of an entry, and the fields of a record that hold them.
_TEXTS = {
    "modular": "modular",
    "modular_sha256": "modular_digest",
    "output_sha256": "digest",
    "diff_sha256": "diff_digest",
    "made_by": "made_by",
    "settings": "settings",
    "patchgen_sha256": "own_digest",
}


def _seal(output: str, entry: Mapping[str, Any]) -> str:
    """The digest of everything that `entry` says of `output`, whatever the layout."""
    sealed = {key: value for key, value in entry.items() if key != SEAL}
    # With the name of the output, so that an entry cannot be moved to another one.
    text = json.dumps([output, sealed], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _entry(record: Record) -> dict[str, Any]:
    """What the file holds of one output, sealed."""
    # By path: an output takes many definitions from a few files.
    parents: dict[str, dict[str, str]] = {}
    for used in sorted(record.parents):
        parents.setdefault(used.path, {})[used.symbol] = used.digest
    entry = {
        **{key: getattr(record, name) for key, name in _TEXTS.items()},
        "parents": parents,
        "reads": dict(record.reads),
    }
    # What was edited stays so until it is made anew.
    return {**entry, SEAL: "" if record.flaw else _seal(record.output, entry)}


def _recorded_output(output: str, entry: Any, flaw: str) -> RecordedOutput:
    fields = entry if isinstance(entry, dict) else {}
    return RecordedOutput(output, str(fields.get("modular", "")), str(fields.get("made_by", "")))


def _record_later(output: str, entry: Any, flaw: str) -> Callable[[], Record]:
    return functools.cache(lambda: _record(output, entry, flaw))


def _record(output: str, entry: Any, flaw: str) -> Record:
    """The record of `output` from `entry`, without fields that cannot be read."""
    entry = entry if isinstance(entry, dict) else {}
    if entry.get(SEAL) != _seal(output, entry):
        flaw = EDITED
    texts = {name: str(entry.get(key, "")) for key, name in _TEXTS.items()}
    try:
        # Sorted as tuples, in the order of the fields: tens of thousands of values compare slowly.
        used = sorted(
            (symbol, str(digest), path)
            for path, symbols in entry["parents"].items()
            for symbol, digest in symbols.items()
        )
        reads = sorted((module, str(digest)) for module, digest in entry["reads"].items())
    except (KeyError, AttributeError, TypeError, ValueError):
        used, reads, flaw = [], [], EDITED
    return Record(
        output,
        **texts,
        parents=tuple(UsedSymbol(*fields) for fields in used),
        reads=tuple(reads),
        flaw=flaw,
    )
