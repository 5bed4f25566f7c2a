"""What earlier runs made, believed while all that it depends on has the same content.

There are three kinds of entries, one file each for a modular file and its roots:

    outcomes   what a modular file gives, without texts: about all files that it was made from
    texts      the texts of that, which only outputs that are not right need
    answers    what was made of single texts (`syntax.kept`), so that it holds for another release

The keys are digests: of files, of settings, of patchgen's own sources; never times.  An entry that
cannot be read, or that other tools wrote, counts as none.  Where those of all projects take more
than `MOST` bytes, the ones that were written longest ago go.

The cache lies outside of the project (`places`); one inside it is not believed, because it may have
come with the checkout.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.compiler.flat import Note, Override, Summary, UsedSymbol
from patchgen.formatting.format import ruff_state
from patchgen.project.files import Modular, Project, is_below
from patchgen.project.outcome import Lookup, Outcome, Output, Read, digest_of, digest_of_file
from patchgen.project.places import root_of, state_of, user_folder
from patchgen.project.versions import own_digest, tool_versions
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.kept import keeping
from patchgen.syntax.locate import Environment

FORMAT = 8  # of the entries: one with another number counts as none
LONG = 1000  # letters of an answer about the file system that is stored as it is
MOST = 500_000_000  # bytes; those of a modular file and one release take 0.1 MB
# Not more than patchgen's own, in a folder that may hold other things.
_NAMES = f"*-{'[0-9a-f]' * 16}/%s/{'[0-9a-f]' * 32}"
_DIGEST = hashlib.sha256().digest_size


def make_short(answer: str) -> str:
    """`answer`, or its digest where it is long."""
    return answer if len(answer) < LONG else digest_of(answer)


@dataclass(frozen=True)
class Cache:
    """The entries of earlier runs.  Where it is not `on`, nothing is loaded and nothing stored.

    `with_texts`: an outcome whose texts are not known counts as none.
    """

    project: Project
    on: bool = True
    with_texts: bool = False
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    # What this run has found to hold: modular files share most of what they depend on.
    _known: set[Read | Lookup] = field(default_factory=set, repr=False, compare=False)

    def load(self, modular: Modular) -> Outcome | None:
        """The stored outcome of `modular`, if it still holds."""
        stored = self._read(self._path_of("outcomes", modular), self._world)
        try:
            if not stored:
                return None
            outcome = _outcome(modular, stored)
            if not self._holds(outcome):
                return None
            return self._complete(outcome) if self.with_texts else outcome
        except (ValueError, KeyError, TypeError, AttributeError):
            # Whatever is wrong with an entry, to make the outcome again is always right.
            return None

    def store(self, outcome: Outcome) -> None:
        """Store `outcome`, unless a file changed while it was read or patchgen itself failed."""
        # A failure of patchgen, or of what it needs, may be over by the next run; without a digest,
        # a file changed while it was read.
        is_final = all(read.digest for read in outcome.reads) and not any(
            problem.code.startswith("PG9") for problem in outcome.problems
        )
        if not is_final:
            return
        stored = {
            "digest": outcome.digest,
            # The parents are hundreds, and a clean check looks at none.
            "outputs": [asdict(replace(o, parents=())) for o in outcome.outputs],
            "problems": [asdict(problem) for problem in outcome.problems],
            "reads": outcome.reads,
            "lookups": outcome.lookups,
            "overrides": [asdict(override) for override in outcome.overrides],
        }
        if outcome.texts is not None:
            outputs = [asdict(output) for output in outcome.outputs]
            made = {"texts": dict(outcome.texts), "outputs": outputs}
            path = self._path_of("texts", outcome.modular)
            self._write(path, self._made_from(outcome), made)
        self._write(self._path_of("outcomes", outcome.modular), self._world, stored)

    def _complete(self, outcome: Outcome) -> Outcome | None:
        """`outcome` with its texts and parents, if they are known."""
        path = self._path_of("texts", outcome.modular)
        made = self._read(path, self._made_from(outcome))
        if not made:
            return None
        # What the gate compares and what is written are the same.
        if any(digest_of(made["texts"][file.name]) != digest for file, digest in outcome.files):
            return None
        outputs = tuple(map(_output, made["outputs"]))
        return replace(outcome, outputs=outputs, texts=made["texts"])

    def load_answers(self, modular: Modular) -> Answers:
        """The answers of earlier runs on `modular`."""
        path = self._path("answers", modular, str(modular.path))
        return Answers(self, path, self._read(path, {}))

    def load_drift(self, modular: Modular) -> Answers:
        """What earlier runs said of the parents of `modular` in the release at hand."""
        path = self._path_of("drift", modular)
        return Answers(self, path, self._read(path, {}))

    def trim(self) -> None:
        """Remove the oldest entries of all projects, where these take more than `MOST` bytes."""
        # Another run may do the same, or write what this one would remove: the next one goes on.
        with suppress(OSError, PatchgenError):
            folder = user_folder()
            entries = []
            for kind in ("outcomes", "texts", "answers", "drift") if self.on else ():
                for path in folder.glob(_NAMES % kind):
                    about = path.lstat()
                    entries.append((about.st_mtime_ns, about.st_size, path))
            size = sum(size for _, size, _ in entries)
            for _, taken, path in sorted(entries):
                if size <= MOST:
                    break
                disk.remove(path, folder)
                size -= taken

    def is_made(self, outcome: Outcome) -> bool:
        """Whether every output of `outcome` was right on disk when this run first looked."""
        if outcome.problems:
            return False
        return all(self._digest(str(path)) == digest for path, digest in outcome.files)

    @functools.cached_property
    def env(self) -> Environment:
        """The modules as this run finds them."""
        return self.project.environment()

    @functools.cached_property
    def _roots(self) -> str:
        """Where modules are looked up."""
        return "\0".join(map(str, self.env.roots)) if self.on else ""

    def _path_of(self, kind: str, modular: Modular) -> Path | None:
        return self._path(kind, modular, f"{modular.path}\0{modular.profile}\0{self._roots}")

    def _made_from(self, outcome: Outcome) -> Mapping[str, Any]:
        """Everything beside tools that decides about the texts of an outcome."""
        return {**self._world, "reads": outcome.reads, "lookups": outcome.lookups}

    def _path(self, kind: str, modular: Modular, view: str) -> Path | None:
        """The file of an entry about `modular`; None where there is none to believe."""
        root = root_of(self.project, modular.path)
        state = state_of(self.project, root) if self.on else root
        if is_below(state, root):
            return None
        name = hashlib.sha256(view.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return state / kind / name

    @functools.cached_property
    def _tools(self) -> bytes:
        """Everything that makes outputs."""
        tools = {
            "format": FORMAT,
            "patchgen": own_digest(),
            # Python compiles the outputs, so that its last number counts too.
            "python": sys.version,
            "tools": tool_versions(),
            "ruff": ruff_state(),
        }
        return json.dumps(tools, sort_keys=True).encode()

    @functools.cached_property
    def _world(self) -> Mapping[str, Any]:
        """Everything beside files and tools that decides about an outcome."""
        settings = asdict(self.project.config.settings)
        allow_bidi = self.project.allow_bidi
        # Outputs and messages show paths relative to the home.
        return {"settings": settings, "bidi": allow_bidi, "home": str(self.project.home)}

    def _read(self, path: Path | None, world: Mapping[str, Any]) -> Mapping[str, Any]:
        """The entry at `path`; none where it is missing, damaged, or of other tools or settings."""
        if path is None:
            return {}
        try:
            data = disk.read_bytes(path, disk.RECORD)
            # An entry is believed as it stands: one that was changed is worth nothing.
            head = data[: 2 * _DIGEST]
            content = data[2 * _DIGEST :]
            if head != self._seal(path, world, content):
                return {}
            stored: Mapping[str, Any] = json.loads(content)
            return stored
        except (OSError, ValueError, RecursionError):
            return {}

    def _write(
        self, path: Path | None, world: Mapping[str, Any], stored: Mapping[str, Any]
    ) -> None:
        """Write an entry; where that fails, the next run makes it again."""
        if path is None:
            return
        content = json.dumps(stored, separators=(",", ":")).encode()
        try:
            if disk.make_private(path.parent):
                data = self._seal(path, world, content) + content
                disk.write(path, data, path.parent, lasting=False)
        except (OSError, PatchgenError):
            return

    def _seal(self, path: Path, world: Mapping[str, Any], content: bytes) -> bytes:
        """The digests of what an entry is about and was made with, and of its content."""
        about = json.dumps([path.parts[-3:], world], sort_keys=True).encode()
        made_with = hashlib.sha256(self._tools + about).digest()
        return made_with + hashlib.sha256(content).digest()

    def _holds(self, outcome: Outcome) -> bool:
        """Whether all that the outcome depends on is as it was."""
        # A new file may hide a module that was read before.  No file has changed then, but the
        # answer to the question where that module is.
        lookups = {*outcome.lookups} - self._known
        for question, subject, answer in lookups:
            if make_short(self.env.look(question, subject)) != answer:
                return False
        reads = {*outcome.reads} - self._known
        if any(self._digest(path) != digest for path, digest, _ in reads):
            return False
        self._known.update(lookups, reads)
        return True

    def _digest(self, path: str) -> str:
        # Modular files share parents, so that one file is asked for many times.
        if path not in self._digests:
            self._digests[path] = digest_of_file(path)
        return self._digests[path]


@dataclass(frozen=True, slots=True)
class Answers:
    """What was `stored` about the texts of one modular file, and what was `used` or made since."""

    cache: Cache
    path: Path | None
    stored: Mapping[str, Any]
    used: dict[str, Any] = field(default_factory=dict)

    def at_hand(self) -> AbstractContextManager[Any]:
        """Let `recall` find the answers while the file is flattened, as often as that goes on."""
        return keeping(self.stored, self.used) if self.path else nullcontext()

    def store(self) -> None:
        """Store what was used."""
        if self.used != self.stored:
            self.cache._write(self.path, {}, self.used)


def _outcome(modular: Modular, stored: Mapping[str, Any]) -> Outcome:
    """The outcome of an entry.  Raises KeyError or TypeError for what is none."""
    return Outcome(
        modular,
        stored["digest"],
        tuple(map(_output, stored["outputs"])),
        tuple(map(_problem, stored["problems"])),
        tuple(map(Read._make, stored["reads"])),
        tuple(map(Lookup._make, stored["lookups"])),
        tuple(Override(**{**item, "at": Location(**item["at"])}) for item in stored["overrides"]),
    )


def _output(item: Mapping[str, Any]) -> Output:
    summary = item["summary"]
    values = {
        "notes": tuple(Note(Location(**note["at"]), note["what"]) for note in item["notes"]),
        "summary": Summary(tuple(summary["classes"]), tuple(summary["parents"])),
        "warnings": tuple(map(_problem, item["warnings"])),
        "parents": tuple(UsedSymbol(**used) for used in item["parents"]),
    }
    return Output(**{**item, **values})


def _problem(item: Mapping[str, Any]) -> Problem:
    places = {name: Location(**item[name]) for name in ("at", "origin")}
    return Problem(**{**item, **places})
