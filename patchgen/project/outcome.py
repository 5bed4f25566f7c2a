"""The result of flattening one modular file, as it is compared, recorded and cached.

In: `Flattened`, which holds texts.  Out: `Outcome`, which holds their digests.  An outcome from the
cache has no texts; a run in which nothing changed needs none.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from patchgen import disk
from patchgen.compiler import flat
from patchgen.project.files import Modular
from patchgen.syntax.errors import Problem
from patchgen.syntax.kept import recall
from patchgen.syntax.lines import changed_lines

TICK = 2_000_000_000  # ns; no file system's clock is coarser
_State = tuple[int, ...]
_SEEN: dict[str, tuple[_State, str]] = {}  # by path: its state when it was read, and its digest


@dataclass(frozen=True, slots=True)
class Output:
    """One output without its text; `diff_digest` is empty where it has no diff.

    `added` and `removed` count the lines by which it differs from its parent, without blank ones.
    A new model has no diff: there `added` counts the lines that were copied from elsewhere than the
    parent.  `parents` are sorted; the cache has none.
    """

    kind: str
    name: str
    digest: str
    diff_digest: str
    size: int  # lines
    notes: tuple[flat.Note, ...]
    summary: flat.Summary
    warnings: tuple[Problem, ...] = ()
    added: int = 0
    removed: int = 0
    parents: tuple[flat.UsedSymbol, ...] = field(default=(), repr=False)

    @property
    def diff_name(self) -> str:
        """The name of the checked-in diff that stands beside the output."""
        return f"{self.name.removesuffix('.py')}.diff"


class Read(NamedTuple):
    """A file that an outcome depends on, with its digest, and its module if it was read as one."""

    path: str
    digest: str
    module: str = ""


class Lookup(NamedTuple):
    """A question about the file system with its answer, or the digest of a long one."""

    question: str
    subject: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """The outputs or problems of a modular file, and everything that they depend on.

    `digest` is the sha256 of the modular file's text.  `texts` maps the names of files, also of
    diffs, to their contents; it is None for an outcome from the cache.
    """

    modular: Modular
    digest: str = ""
    outputs: tuple[Output, ...] = ()
    problems: tuple[Problem, ...] = ()
    reads: tuple[Read, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    overrides: tuple[flat.Override, ...] = ()
    texts: Mapping[str, str] | None = field(default=None, repr=False)

    @functools.cached_property
    def files(self) -> tuple[tuple[Path, str], ...]:
        """The files of all outputs with their expected digests."""
        files = (files_of(self.modular, output) for output in self.outputs)
        return tuple(chain.from_iterable(files))

    @property
    def warnings(self) -> list[Problem]:
        """The warnings of all outputs."""
        return list(chain.from_iterable(output.warnings for output in self.outputs))


def make_outcome(
    modular: Modular,
    digest: str,
    flattened: flat.Flattened,
    reads: tuple[Read, ...],
    lookups: tuple[Lookup, ...],
) -> Outcome:
    """The outcome of a finished flattening, with or without problems."""
    texts: dict[str, str] = {}
    outputs = []
    # By name, so that profiles may yield an output's files in any order.
    for file in sorted(flattened.files, key=lambda file: file.name):
        diff = None if file.diff_base is None else variant_diff(file)
        output = _make_output(file, diff)
        outputs.append(output)
        texts[output.name] = file.text
        if diff is not None:
            texts[output.diff_name] = diff
    problems = tuple(sorted(flattened.problems))
    # What gives nothing has no overrides: the records of a file that fails stay.
    overrides = flattened.overrides if outputs or not problems else ()
    return Outcome(modular, digest, tuple(outputs), problems, reads, lookups, overrides, texts)


def with_warnings_as_errors(outcome: Outcome) -> Outcome:
    """`outcome`, without outputs where one of them has a warning."""
    if not outcome.warnings:
        return outcome
    errors = (replace(warning, severity="error") for warning in outcome.warnings)
    problems = tuple(sorted({*outcome.problems, *errors}))
    # As of any file with an error, the records stay.
    return replace(outcome, outputs=(), problems=problems, overrides=(), texts={})


def files_of(modular: Modular, output: Output) -> Iterator[tuple[Path, str]]:
    """The files of one output with their expected digests, the diff included."""
    yield _inside(modular.folder, output.name), output.digest
    if output.diff_digest:
        yield _inside(modular.folder, output.diff_name), output.diff_digest


@functools.lru_cache(maxsize=4096)  # A run asks three times for the path of each output.
def _inside(folder: Path, name: str) -> Path:
    return folder / name


def _make_output(file: flat.FlatFile, diff: str | None) -> Output:
    """What is recorded of an output."""
    added, removed = (_added_to_new(file), 0) if diff is None else changed_lines(diff)
    return Output(
        kind=file.kind,
        name=file.name,
        digest=digest_of(file.text),
        diff_digest="" if diff is None else digest_of(diff),
        size=file.text.count("\n"),
        notes=file.notes,
        summary=file.summary,
        warnings=file.warnings,
        added=added,
        removed=removed,
        # Sorted by tuples: values that compare themselves take many times as long.
        parents=tuple(sorted(file.parents, key=lambda u: (u.symbol, u.digest, u.path))),
    )


def _added_to_new(file: flat.FlatFile) -> int:
    """Count the lines of a new model that are not its parent's; imports have no origin."""
    # The first one is the model that this one is made after.
    parent = file.summary.parents[0] if file.summary.parents else ""
    own = {used.path for used in file.parents if used.symbol.rpartition(".")[0] == parent}
    lines = file.text.split("\n")
    added = 0
    for origin in file.lines:
        if origin.path not in own:
            written = lines[origin.first - 1 : origin.last]
            added += sum(line.strip() != "" for line in written)
    return added


def variant_diff(file: flat.FlatFile) -> str:
    """The diff from the parent to the output: what a reviewer reads instead of the output."""
    name, base = file.diff_base or ("", "")
    kept = recall("diff", base, file.text, name, file.name)
    if kept.answer is not None:
        return str(kept.answer)
    diff = unified(base, file.text, name, file.name)
    kept.keep(diff)
    return diff


def unified(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified diff, empty when both are equal; nothing in it depends on time or place."""
    if old == new:
        return ""
    # Imported here: where all is up to date, nothing differs.
    import difflib

    written = []
    # str.splitlines also breaks at \x0c and others, which no editor and no patch tool does.
    old_lines, new_lines = (re.findall("[^\n]*\n|[^\n]+", text) for text in (old, new))
    for line in difflib.unified_diff(old_lines, new_lines, old_name, new_name):
        written.append(line)
        # difflib would join such a line with the next one; git and diff write this instead.
        if not line.endswith("\n"):
            written.append("\n\\ No newline at end of file\n")
    return "".join(written)


def digest_of_bytes(data: bytes) -> str:
    """The sha256 of `data`, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_of(text: str) -> str:
    """The sha256 of `text` as it stands in a file."""
    return digest_of_bytes(text.encode("utf-8"))


def digest_of_file(path: Path | str) -> str:
    """The sha256 of the file at `path`, or "" where it cannot be read.

    A run asks for most files twice.  The second time, a file is read again only if it may have
    changed.
    """
    try:
        # Before reading: a change in between then shows as another state the next time.
        about = os.stat(path)
        state = _state_of(about)
        name = os.fspath(path)
        if state is not None and name in _SEEN and _SEEN[name][0] == state:
            return _SEEN[name][1]
        digest = digest_of_bytes(disk.read_bytes(path, about=about))
    except (OSError, ValueError):  # ValueError: a null byte in the path, which no file has.
        return ""
    if state is not None:
        _SEEN[name] = state, digest
    return digest


def _state_of(about: os.stat_result) -> _State | None:
    """What changes with any change of the file from now on; None where nothing does.

    The clock of a file system ticks slowly: two changes shortly after each other may have one time.
    """
    # On Windows, st_ctime is the time at which the file was made.
    if os.name != "posix" or about.st_ctime_ns >= time.time_ns() - TICK:
        return None
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
