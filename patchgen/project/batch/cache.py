"""Store outcomes of earlier runs, and load them while nothing that they depend on has changed.

In: an `Outcome`.  Out: the same without its texts, or None.

A key is made of contents: digests of files, of settings, and of patchgen's own sources.  Times of
modification are not used.  An entry that cannot be read, or that another version wrote, does not
count, and a folder that cannot be written stores nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from patchgen.compiler.emit.format import ruff_state
from patchgen.compiler.flat import Note, Override, Summary
from patchgen.project.batch.outcome import (
    Lookup,
    Made,
    Outcome,
    Read,
    digest_of_file,
    make_short,
)
from patchgen.project.files import Modular, Project
from patchgen.project.places import cache_of, make_state, root_of
from patchgen.project.versions import own_digest, versions
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.regular import read_regular

# Of the entries: one with another number counts as none.
FORMAT = 5


@dataclass(frozen=True)
class Cache:
    """The outcomes of earlier runs, one file each.

    A cache that is not `on` loads and stores nothing.
    """

    project: Project
    on: bool = True
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def load(self, modular: Modular) -> Outcome | None:
        """The stored outcome of `modular`, if it still holds."""
        if not self.on:
            return None
        try:
            entry = json.loads(read_regular(self._path(modular)))
            if entry["made_with"] != self._made_with or not self._holds(entry):
                return None
            return _outcome(modular, entry)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # Whatever is wrong with an entry, to make the outcome again is always right.
            return None

    def is_made(self, outcome: Outcome) -> bool:
        """Whether every output of `outcome` was right on disk when this run first looked."""
        if outcome.problems:
            return False
        return all(self._digest(str(path)) == digest for path, digest in outcome.files)

    def store(self, outcome: Outcome) -> None:
        """Store `outcome`, unless a file changed while it was read or patchgen itself failed."""
        if not self.on or not _is_final(outcome):
            return
        entry = {
            "digest": outcome.digest,
            "made": [asdict(made) for made in outcome.made],
            "problems": [asdict(problem) for problem in outcome.problems],
            "reads": [(read.path, read.digest, read.module) for read in outcome.reads],
            "lookups": [(one.question, one.subject, one.answer) for one in outcome.lookups],
            "overrides": [asdict(override) for override in outcome.overrides],
            "made_with": self._made_with,
        }
        # Imported here: a run that finds all unchanged stores nothing.
        from patchgen.project.disk.write import replace_file

        data = json.dumps(entry, separators=(",", ":")).encode()
        try:
            path = Path(self._path(outcome.modular))
            # The folder above holds what marks all of it as a cache.
            make_state(path.parent.parent)
            path.parent.mkdir(exist_ok=True)
            replace_file(path, data, lasting=False)
        except (OSError, PatchgenError):
            return  # A cache that cannot be written costs time, nothing else.

    @functools.cached_property
    def env(self) -> Environment:
        """The modules as this run finds them."""
        return self.project.environment()

    def _path(self, modular: Modular) -> str:
        """The file of the entry about `modular`."""
        # One file a modular file and view of the world: entries that are out of date are written
        # over, never piled up.
        view = f"{modular.path}\0{modular.profile}\0{self._roots}"
        name = hashlib.sha256(view.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return f"{self._folder_of(root_of(self.project, modular.path))}{os.sep}{name}.json"

    @functools.cached_property
    def _roots(self) -> str:
        return "\0".join(map(str, self.env.roots))

    @functools.cached_property
    def _folder_of(self) -> Callable[[Path], Path]:
        return functools.cache(lambda root: cache_of(self.project, root))

    @functools.cached_property
    def _made_with(self) -> Mapping[str, Any]:
        """Everything beside files that decides about an outcome."""
        settings = self.project.config.settings
        return {
            "format": FORMAT,
            "patchgen": own_digest(),
            "python": list(sys.version_info[:2]),
            "versions": dict(versions(self.env, settings.formatter)),
            "ruff": ruff_state(),
            # Through JSON, as the entry that it is compared with: there, tuples are lists.
            "settings": json.loads(json.dumps(asdict(settings))),
            "allow_bidi": self.project.allow_bidi,
            # Outputs and messages show paths relative to it.
            "home": str(self.project.home),
        }

    def _holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether all that the entry depends on is as it was."""
        # A new file may hide a module that was read before.  No file has changed then, but the
        # answer to the question where that module is.
        for question, subject, answer in entry["lookups"]:
            if make_short(self.env.look(question, subject)) != answer:
                return False
        return all(self._digest(path) == digest for path, digest, _ in entry["reads"])

    def _digest(self, path: str) -> str:
        # Modular files share parents, so that one file is asked for many times.
        if path not in self._digests:
            self._digests[path] = digest_of_file(path)
        return self._digests[path]


def _is_final(outcome: Outcome) -> bool:
    """Whether the same files would give the same outcome again."""
    # A failure of patchgen, or of what it needs, may be over by the next run.
    if any(problem.code.startswith("PG9") for problem in outcome.problems):
        return False
    # Without a digest, the file changed while it was read.
    return all(read.digest for read in outcome.reads)


def _outcome(modular: Modular, entry: Mapping[str, Any]) -> Outcome:
    """The outcome of an entry.  Raises KeyError or TypeError for what is none."""
    return Outcome(
        modular,
        entry["digest"],
        tuple(_made(item) for item in entry["made"]),
        tuple(_problem(item) for item in entry["problems"]),
        tuple(Read(*item) for item in entry["reads"]),
        tuple(Lookup(*item) for item in entry["lookups"]),
        tuple(_override(item) for item in entry["overrides"]),
    )


def _made(item: Mapping[str, Any]) -> Made:
    summary = item["summary"]
    return Made(
        kind=item["kind"],
        name=item["name"],
        digest=item["digest"],
        diff_digest=item["diff_digest"],
        size=item["size"],
        trace=item["trace"],
        notes=tuple(Note(Location(**part["at"]), part["what"]) for part in item["notes"]),
        summary=Summary(tuple(summary["classes"]), tuple(summary["parents"])),
        warnings=tuple(_problem(warning) for warning in item["warnings"]),
        added=item["added"],
        removed=item["removed"],
    )


def _override(item: Mapping[str, Any]) -> Override:
    return Override(Location(**item["at"]), item["name"], item["parent"], item["text"])


def _problem(item: Mapping[str, Any]) -> Problem:
    return Problem(
        Location(**item["at"]), item["code"], item["what"], item["hint"], item["severity"]
    )
