"""The result of flattening one modular file, as it is compared, recorded and cached.

In: `Flattened`, which holds texts.  Out: `Outcome`, which holds their digests.  An outcome from the
cache has no texts; a run in which nothing changed needs none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.compiler.flat import (
    FlatFile,
    Flattened,
    LineOrigin,
    Note,
    Override,
    Summary,
    UsedSymbol,
)
from patchgen.project.files import Modular
from patchgen.syntax.errors import Problem
from patchgen.syntax.kept import recall
from patchgen.syntax.lines import changed_lines
from patchgen.syntax.regular import read_regular

LONG = 1000  # letters of an answer that is remembered as it is
TICK = 2_000_000_000  # ns; no file system's clock is coarser
_State = tuple[int, ...]
_SEEN: dict[str, tuple[_State, str]] = {}  # by path: its state when it was read, and its digest


@dataclass(frozen=True, slots=True)
class Made:
    """One output without its text; `diff_digest` is empty where it has no diff.

    `added` and `removed` count the lines by which it differs from its parent, without blank ones.
    A new model has no diff: there `added` counts the lines that were copied from elsewhere than the
    parent.
    """

    kind: str
    name: str
    digest: str
    diff_digest: str
    size: int  # lines
    # JSON of `parents` and `lines`: a clean check loads thousands of them and looks at none.
    trace: str = field(repr=False)
    notes: tuple[Note, ...]
    summary: Summary
    warnings: tuple[Problem, ...] = ()
    added: int = 0
    removed: int = 0

    @property
    def parents(self) -> tuple[UsedSymbol, ...]:
        """The parents' definitions that the output was made from, sorted."""
        return tuple(UsedSymbol(*item) for item in json.loads(self.trace)[0])

    @property
    def lines(self) -> tuple[LineOrigin, ...]:
        """Where its lines came from, sorted."""
        return tuple(LineOrigin(*item) for item in json.loads(self.trace)[1])

    @property
    def diff_name(self) -> str:
        """The name of the checked-in diff that stands beside the output."""
        return f"{self.name.removesuffix('.py')}.diff"


@dataclass(frozen=True, slots=True)
class Read:
    """A file that an outcome depends on, with its digest, and its module if it was read as one."""

    path: str
    digest: str
    module: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question about the file system with its answer, which may be shortened."""

    question: str
    subject: str
    answer: str


def make_short(answer: str) -> str:
    """`answer`, or its digest where it is long."""
    return answer if len(answer) < LONG else digest_of(answer)


@dataclass(frozen=True)
class Outcome:
    """The outputs or problems of a modular file, and everything that they depend on.

    `digest` is the sha256 of the modular file's text.  `texts` maps the names of files, also of
    diffs, to their contents.
    """

    modular: Modular
    digest: str = ""
    made: tuple[Made, ...] = ()
    problems: tuple[Problem, ...] = ()
    reads: tuple[Read, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    overrides: tuple[Override, ...] = ()
    texts: Mapping[str, str] | None = field(default=None, repr=False)

    @functools.cached_property
    def files(self) -> tuple[tuple[Path, str], ...]:
        """The files of all outputs with their expected digests."""
        return tuple(file for made in self.made for file in files_of(self.modular, made))


def make_outcome(
    modular: Modular,
    digest: str,
    flattened: Flattened,
    reads: tuple[Read, ...],
    lookups: tuple[Lookup, ...],
) -> Outcome:
    """The outcome of a finished flattening, with or without problems."""
    if flattened.problems and not flattened.files:
        problems = tuple(sorted(flattened.problems))
        # No texts, and not None: to flatten it again would give none either.
        return Outcome(modular, digest, (), problems, reads, lookups, texts={})
    texts: dict[str, str] = {}
    made = []
    # By name, so that profiles may yield an output's files in any order.
    for file in sorted(flattened.files, key=lambda file: file.name):
        diff = None if file.diff_base is None else variant_diff(file)
        one = _made(file, diff)
        made.append(one)
        texts[one.name] = file.text
        if diff is not None:
            texts[one.diff_name] = diff
    return Outcome(
        modular,
        digest,
        tuple(made),
        tuple(sorted(flattened.problems)),
        reads,
        lookups,
        flattened.overrides,
        texts,
    )


def files_of(modular: Modular, made: Made) -> Iterator[tuple[Path, str]]:
    """The files of one output with their expected digests, the diff included."""
    yield _inside(modular.folder, made.name), made.digest
    if made.diff_digest:
        yield _inside(modular.folder, made.diff_name), made.diff_digest


@functools.lru_cache(maxsize=4096)  # A run asks three times for the path of each output.
def _inside(folder: Path, name: str) -> Path:
    return folder / name


def _made(file: FlatFile, diff: str | None) -> Made:
    """What is recorded of an output."""
    added, removed = (_added_to_new(file), 0) if diff is None else changed_lines(diff)
    # As `dataclasses.astuple`, which copies each value and takes ten times as long.
    parents = sorted((used.symbol, used.digest, used.path) for used in file.parents)
    lines = sorted((part.first, part.last, part.path, part.line) for part in file.lines)
    return Made(
        kind=file.kind,
        name=file.name,
        digest=digest_of(file.text),
        diff_digest="" if diff is None else digest_of(diff),
        size=file.text.count("\n"),
        trace=json.dumps([parents, lines]),
        notes=file.notes,
        summary=file.summary,
        warnings=file.warnings,
        added=added,
        removed=removed,
    )


def _added_to_new(file: FlatFile) -> int:
    """Count the lines of a new model that were copied from elsewhere than its parent.

    Imports have no origin.
    """
    # The first one is the model that this one is made after.
    parent = file.summary.parents[0] if file.summary.parents else ""
    own = {used.path for used in file.parents if used.symbol.rpartition(".")[0] == parent}
    lines = file.text.split("\n")
    count = 0
    for origin in file.lines:
        if origin.path in own:
            continue
        copied = lines[origin.first - 1 : origin.last]
        count += sum(line.strip() != "" for line in copied)
    return count


def variant_diff(file: FlatFile) -> str:
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
    for line in difflib.unified_diff(_lines(old), _lines(new), old_name, new_name):
        written.append(line)
        # difflib would join such a line with the next one; git and diff write this instead.
        if not line.endswith("\n"):
            written.append("\n\\ No newline at end of file\n")
    return "".join(written)


def _lines(text: str) -> list[str]:
    """The lines of `text` with their ends."""
    # str.splitlines also breaks at \x0c and others, which no editor and no patch tool does.
    *whole, rest = text.split("\n")
    lines = [f"{piece}\n" for piece in whole]
    # Behind the last line end there is nothing, or a line without one.
    return [*lines, rest] if rest else lines


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
        state, name = _state_of(about), os.fspath(path)
        if state is not None and name in _SEEN and _SEEN[name][0] == state:
            return _SEEN[name][1]
        digest = digest_of_bytes(read_regular(path, about=about))
    except (OSError, ValueError):  # ValueError: a null byte in the path, which no file has.
        return ""
    if state is not None:
        _SEEN[name] = state, digest
    return digest


def _state_of(about: os.stat_result) -> _State | None:
    """What changes with any change of the file from now on; None where nothing does."""
    if not _is_settled(about):
        return None
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _is_settled(about: os.stat_result) -> bool:
    """Whether any change from now on would change the file's time of change.

    The clock of a file system ticks slowly: two changes shortly after each other may have one time.
    """
    # On Windows, st_ctime is the time at which the file was made.
    return os.name == "posix" and about.st_ctime_ns < time.time_ns() - TICK
