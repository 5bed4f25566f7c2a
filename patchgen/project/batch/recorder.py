"""Record what the flattening of a file depends on: the modules it looked up, and what it read.

A `DependencyRecorder` is an environment that records every `look` and every `source`.  The outcome
of an earlier run holds as long as each of these files is the same and each question about the file
system has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.compiler.flat import Flattened
from patchgen.project.batch.outcome import (
    Lookup,
    Outcome,
    Read,
    digest_of_bytes,
    digest_of_file,
    make_outcome,
    make_short,
)
from patchgen.project.files import Modular, Project
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.regular import read_regular
from patchgen.syntax.text import Source, decode, make_source


@dataclass(frozen=True)
class DependencyRecorder(Environment):
    """An environment that records what it is asked.

    `read` maps paths to digests of texts; the digest is empty where reading failed.
    """

    asked: dict[tuple[str, str], str] = field(default_factory=dict, compare=False)
    read: dict[str, str] = field(default_factory=dict, compare=False)
    _indexed: dict[str, ModuleIndex] = field(default_factory=dict, repr=False, compare=False)

    def look(self, question: str, subject: str) -> str:
        """As in `Environment`."""
        answer = super().look(question, subject)
        self.asked[question, subject] = answer
        return answer

    def source(self, module: str, at: Location) -> Source:
        """As in `Environment`."""
        path = self.look("module", module)
        # Where reading fails, the problem depends on this file all the same.
        if path:
            self.read.setdefault(path, "")
        source = super().source(module, at)
        self.read[path] = source.digest
        return source

    def index(self, module: str, at: Location) -> ModuleIndex:
        """As in `Environment`."""
        # Each module is asked for hundreds of times, and has to be recorded once.
        if module not in self._indexed:
            self._indexed[module] = super().index(module, at)
        return self._indexed[module]

    def forget(self) -> None:
        """Forget everything, before another modular file."""
        self.asked.clear()
        self.read.clear()
        self._indexed.clear()

    def for_another(self) -> DependencyRecorder:
        """A recorder for another modular file, which shares all caches."""
        return replace(self, asked={}, read={}, _indexed={})


def make_recorder(project: Project) -> DependencyRecorder:
    """A recorder over the project's environment."""
    env = project.environment()
    return DependencyRecorder(env.roots, env.home, env.allow_bidi, env.archives)


def record(modular: Modular, flattened: Flattened, recorder: DependencyRecorder) -> Outcome:
    """The outcome of `modular` with everything that it depends on."""
    text, raw = _digests(modular.path)
    modules: dict[str, str] = {}
    # In reverse, so that of several names of one file the first counts.
    for (question, module), path in sorted(recorder.asked.items(), reverse=True):
        if question == "module":
            modules[path] = module
    digests = {path: _raw_if_same(path, digest) for path, digest in recorder.read.items()}
    # A profile that works on many files at once says itself what it has read.
    for read_path, digest in (flattened.reads or {}).items():
        if read_path != modular.path:
            digests[str(read_path)] = digest
    reads = [Read(path, digest, modules.get(path, "")) for path, digest in sorted(digests.items())]
    lookups = [Lookup(*key, make_short(answer)) for key, answer in sorted(recorder.asked.items())]
    own = Read(str(modular.path), raw)
    return make_outcome(modular, text, flattened, (own, *reads), tuple(lookups))


def _raw_if_same(path: str, known: str) -> str:
    """The digest of the bytes at `path`, or "" when its text is not the one that was `seen`."""
    raw = digest_of_file(path)
    # The usual text, in UTF-8 and with plain line ends, has the digest of its bytes.
    if raw == known:
        return raw
    text, raw = _digests(Path(path))
    # Nothing was seen of a file that could not be read.
    return raw if known in ("", text) else ""


def _digests(path: Path) -> tuple[str, str]:
    """The sha256 of a file's text and of its bytes; both are empty where there is no file."""
    try:
        data = read_regular(path)
        # Characters that may be refused have a digest like any others.
        source = make_source(decode(data, path.name, allow_bidi=True), path.name)
        return source.digest, digest_of_bytes(data)
    except PatchgenError:
        return "", digest_of_bytes(data)
    except OSError:
        return "", ""
