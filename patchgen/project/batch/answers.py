"""Store what is kept of texts between runs (`syntax.kept`), one file for each modular file.

In: a modular file that is about to be flattened.  Out: contexts in which the answers of earlier
runs are known; at the end, those that were used are stored.  An outcome (`batch.cache`) is about
all files that it was made from.  An answer is about one text, so that it also holds for another
release of these files.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.compiler.emit.format import ruff_state
from patchgen.project.disk.write import replace_file
from patchgen.project.files import Modular, Project
from patchgen.project.places import answers_of, make_state, root_of
from patchgen.project.versions import own_digest, tool_versions
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.kept import keeping
from patchgen.syntax.regular import read_regular

# Of the files: one with another number counts as none.
FORMAT = 1
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of earlier runs.  Where it is not `on`, nothing is loaded or stored."""

    project: Project
    on: bool = True

    def load(self, modular: Modular) -> FileAnswers:
        """What is known for `modular`."""
        if not self.on:
            return FileAnswers(None, {})
        path = self._path(modular)
        return FileAnswers(path, _load(path))

    def _path(self, modular: Modular) -> Path:
        """The file of the answers for `modular`: written over, so that they never pile up."""
        name = hashlib.sha256(str(modular.path).encode("utf-8", "surrogateescape")).hexdigest()
        return answers_of(self.project, root_of(self.project, modular.path)) / f"{name[:32]}.json"


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """The answers that are `known` for one modular file, and those that were `used`.

    `path` is where they are stored; None where nothing is.
    """

    path: Path | None
    known: Mapping[str, Any]
    used: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Let what is known be found while the file is flattened, as often as that goes on."""
        if self.path is None:
            yield
            return
        with keeping(self.known, self.used):
            yield

    def store(self) -> None:
        """Store what was used."""
        if self.path is not None and self.used != self.known:
            _store(self.path, self.used)


def _made_with() -> dict[str, Any]:
    """Everything beside its subject that decides about an answer."""
    return {
        "format": FORMAT,
        "patchgen": own_digest(),
        # Python compiles the outputs, so that its last number counts too.
        "python": sys.version,
        "tools": tool_versions(),
        "ruff": ruff_state(),
    }


def _load(path: Path) -> Mapping[str, Any]:
    """The answers in the file at `path`; none where it is missing, damaged, or of other tools."""
    try:
        data = read_regular(path)
        digest, content = data[:_DIGEST], data[_DIGEST:]
        # An answer is believed as it stands: whatever changed the file, it is worth nothing then.
        if hashlib.sha256(content).digest() != digest:
            return {}
        stored = json.loads(content)
        found: Mapping[str, Any] = stored["answers"]
        return found if stored["made_with"] == _made_with() else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _store(path: Path, used: Mapping[str, Any]) -> None:
    """Write the answers; where that fails, the next run makes them again."""
    content = json.dumps({"made_with": _made_with(), "answers": used}).encode()
    try:
        # The folder above holds what marks all of it as a cache.
        make_state(path.parent.parent)
        path.parent.mkdir(exist_ok=True)
        replace_file(path, hashlib.sha256(content).digest() + content, lasting=False)
    except (OSError, PatchgenError):
        return
