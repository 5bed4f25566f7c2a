"""Take what a check goes by from a commit, and list how the tree differs from it.

A pull request could change the configuration so that nothing is checked, or take outputs out of
patchgen.lock.  With `--base REF` the configuration of that commit counts, and what its lock records
has to come from a modular file as before.  git only reads objects: nothing that the repository's
own settings name is run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from patchgen.project.config import FILE, TABLE, Config, make_config, parse_table, read_table
from patchgen.project.files import is_below
from patchgen.project.lock import Record, parse_lock, read_lock
from patchgen.project.overrides import FILE as OVERRIDES
from patchgen.project.overrides import Records, parse_overrides, read_overrides
from patchgen.project.places import LOCK
from patchgen.syntax.errors import Location, PatchgenError, Problem

_SECONDS = 60
_ABSENT = "absent"
# No pager, no fetching of what is missing, no other objects in the place of the ones asked for.
_OPTIONS = "--no-pager --no-replace-objects -c core.fsmonitor= -c protocol.allow=never".split()
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What `file` says of `key` in the base, and in the tree."""

    file: str
    key: str
    old: str
    new: str

    @property
    def problem(self) -> Problem | None:
        """The finding; none for a new record, which switches nothing off."""
        if self.old == _ABSENT and self.file != FILE:
            return None
        what = f"{self.key} is {self.new} here and {self.old} in the base, which counts"
        hint = "look at it as at a change of the check itself"
        return Problem(Location(self.file), "PG515", what, hint, "warning")

    def data(self) -> dict[str, str]:
        """This as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Base:
    """The commit that counts, of the repository whose working tree is at `top`."""

    top: Path
    commit: str

    def read_config(self, folder: Path) -> Config | None:
        """The configuration that the commit has in the pyproject.toml of `folder`."""
        table = parse_table(self._read(folder / FILE))
        return None if table is None else make_config(table, folder)

    def records(self, home: Path) -> dict[Path, Record]:
        """The records of the outputs that are still there."""
        records = {}
        for name, record in parse_lock(self._read(home / LOCK)).items():
            path = home / name
            if path.exists():
                records[path] = record
        return records

    def changes(self, home: Path) -> Iterator[Change]:
        """How the configuration, the lock and the overrides of the tree differ."""
        old_table = parse_table(self._read(home / FILE))
        table = read_table(home)
        yield from _differences(FILE, _settings(old_table), _settings(table))
        lock = home / LOCK
        old_records = parse_lock(self._read(lock))
        records = read_lock(lock)
        yield from _differences(LOCK, _modulars(old_records), _modulars(records))
        old_overrides = parse_overrides(self._read(home / OVERRIDES))
        overrides = read_overrides(home)
        yield from _differences(OVERRIDES, _parents(old_overrides), _parents(overrides))

    def _read(self, path: Path) -> str:
        """The text that the file has in the commit; "" where it has no such file."""
        if not is_below(path, self.top):
            return ""
        name = path.relative_to(self.top).as_posix()
        entry = _git(self.top, "ls-tree", "-z", "--full-tree", self.commit, "--", name)
        if not entry:
            return ""
        mode, kind, blob = entry.partition("\t")[0].split()
        if kind != "blob" or mode == "120000":
            raise PatchgenError("PG516", Location(name), "is no regular file in the base")
        return _git(self.top, "cat-file", "blob", blob)


def open_base(reference: str, start: Path) -> Base:
    """The commit `reference` of the repository around `start`.

    Raises PatchgenError PG516 where there is no repository, no git or no such commit.
    """
    at = Location(reference)
    places = (place for place in (start, *start.parents) if (place / ".git").exists())
    top = next(places, None)
    if top is None:
        raise PatchgenError("PG516", at, "cannot be read: there is no git repository here")
    if not reference or reference.startswith("-"):
        raise PatchgenError("PG516", at, "is not the name of a commit")
    commit = _git(top, "rev-parse", "--verify", f"{reference}^{{commit}}").strip()
    return Base(top, commit)


def _git(top: Path, *words: str) -> str:
    """What git prints; raises PatchgenError PG516 where it fails."""
    from patchgen import children  # slow to load, and most runs ask no commit

    program = shutil.which("git")
    # On some systems the current folder is searched too.
    if program is None or is_below(Path(program).resolve(), top):
        raise PatchgenError("PG516", Location("git"), "is not installed", "install it")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Named, so that no folder of the tree that looks like a repository is found before it.
    command = [program, f"--git-dir={top / '.git'}", *_OPTIONS, *words]
    done = children.run(command, children.HOME, _SECONDS, {**inherited, **_ENVIRONMENT})
    if done.returncode:
        what = f"cannot read the base: {' '.join(done.stderr.split())}"
        hint = "fetch that commit first, for example with fetch-depth: 0 of actions/checkout"
        raise PatchgenError("PG516", Location("git"), what, hint)
    return done.stdout


def _differences(file: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        before = old.get(key, _ABSENT)
        now = new.get(key, _ABSENT)
        if before != now:
            yield Change(file, key, before, now)


def _settings(table: object) -> dict[str, str]:
    settings = {}
    if isinstance(table, dict):
        for key, value in table.items():
            written = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
            settings[f"{TABLE}.{key}"] = written
    return settings


def _modulars(records: Mapping[str, Record]) -> dict[str, str]:
    modulars = {}
    # Digests are not compared: the check compares them with what it makes itself.
    for output, record in records.items():
        modulars[output] = f"made from {record.modular}"
    return modulars


def _parents(overrides: Records) -> dict[str, str]:
    parents = {}
    for modular, names in overrides.items():
        for name, parent in names.items():
            parents[f"{modular}: {name}"] = f"{parent.symbol} with the text {parent.text!r}"
    return parents
