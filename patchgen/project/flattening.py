"""Flatten the modular files of one profile, and record what each depends on.

The strict profile works file by file: the texts of many files are linked, then formatted together,
because starting the formatter takes longer than formatting, then finished.  A profile in which one
file needs another's output takes all files at once.  An error in one file does not stop the next.

A `DependencyRecorder` is an environment that records every `look` and every `source`.  The outcome
of an earlier run holds as long as each of these files is the same and each question about the file
system has the same answer.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from patchgen import disk
from patchgen.compiler.flat import Flattened
from patchgen.compiler.settings import Settings
from patchgen.project.cache import Answers, Cache, make_short
from patchgen.project.files import (
    LINT,
    STRICT,
    TRANSFORMERS,
    Modular,
    Project,
)
from patchgen.project.outcome import (
    Lookup,
    Outcome,
    Read,
    digest_of_bytes,
    digest_of_file,
    make_outcome,
)
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Problem, defect, problems_of
from patchgen.syntax.kept import forget_texts
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source, decode, make_source

if TYPE_CHECKING:
    from patchgen.compiler.flatten import Draft

# More would save no more than they take in memory: each holds all that it has linked.
FILES_AT_ONCE = 16
# Files of one model are neighbours and share their parents, which others do not: a project of
# 1,000 files would hold all of transformers.
FILES_TO_REMEMBER = 48

_T = TypeVar("_T")
MakeDraft = Callable[[Path, Environment, Settings], "Draft"]
FlattenAll = Callable[[Sequence[Path], Environment, Settings, int], Iterator[Flattened]]


# The profiles.  Each imports its rules when it is used: a run that finds everything in its cache
# loads none of them.


def _draft_strictly(path: Path, env: Environment, settings: Settings) -> Draft:
    from patchgen.compiler import flatten

    return flatten.make_draft(path, env, settings)


def _draft_and_lint(path: Path, env: Environment, settings: Settings) -> Draft:
    from patchgen.lint import with_findings
    from patchgen.syntax.text import read_source

    draft = _draft_strictly(path, env, settings)
    name = env.display_path(path.parent.resolve() / path.name)
    source = read_source(path, "", name, allow_bidi=env.allow_bidi)
    return replace(draft, finish=lambda texts: with_findings(draft.finish(texts), source))


def _flatten_as_transformers(
    paths: Sequence[Path], env: Environment, settings: Settings, jobs: int
) -> Iterator[Flattened]:
    from patchgen.upstream.repository import flatten_repository

    return flatten_repository(paths, env, jobs)


FILE_BY_FILE: Mapping[str, MakeDraft] = {STRICT: _draft_strictly, LINT: _draft_and_lint}
TOGETHER: Mapping[str, FlattenAll] = {TRANSFORMERS: _flatten_as_transformers}


def flatten_group(
    cache: Cache, profile: str, modulars: Sequence[Modular], jobs: int = 1
) -> Iterator[Outcome]:
    """Yield the outcomes in order; `jobs` is for a profile that has workers of its own."""
    env = cache.project.environment()
    recorder = DependencyRecorder(env.roots, env.home, env.allow_bidi, env.archives)
    if profile in TOGETHER:
        yield from _flatten_together(cache.project, profile, modulars, recorder, jobs)
        return
    for first in range(0, len(modulars), FILES_AT_ONCE):
        if first and first % FILES_TO_REMEMBER == 0:
            _let_go()
        batch = modulars[first : first + FILES_AT_ONCE]
        yield from _flatten_file_by_file(cache, FILE_BY_FILE[profile], batch, recorder)


def _let_go() -> None:
    """Give back the memory of what was read for earlier files."""
    forget_texts()
    gc.collect()
    if not gc.isenabled():
        gc.freeze()  # outcomes, which stay: the next collection need not walk them again


def _flatten_together(
    project: Project,
    profile: str,
    modulars: Sequence[Modular],
    recorder: DependencyRecorder,
    jobs: int,
) -> Iterator[Outcome]:
    """Yield the outcomes of files that need each other."""
    rest = list(modulars)
    # A generator that raised an error is over.  The profile then starts again behind that file.
    while rest:
        paths = [modular.path for modular in rest]
        results = TOGETHER[profile](paths, recorder, project.config.settings, jobs)
        failed = False
        while rest and not failed:
            modular = rest.pop(0)
            # What an earlier file depends on is not what this one depends on.
            recorder.forget()
            flattened, problems = _catch(modular, functools.partial(next, results))
            failed = flattened is None
            yield record(modular, flattened or Flattened(problems=problems), recorder)


@dataclass(slots=True)
class _File:
    """A modular file on its way: its draft and the formatted texts, or what is wrong with it."""

    modular: Modular
    recorder: DependencyRecorder
    answers: Answers
    draft: Draft | None = None
    texts: dict[str, str] | PatchgenError | None = None
    problems: tuple[Problem, ...] = ()


def _flatten_file_by_file(
    cache: Cache, make_draft: MakeDraft, modulars: Sequence[Modular], recorder: DependencyRecorder
) -> Iterator[Outcome]:
    """Yield the outcomes of files that do not need each other, in order."""
    # Imported here: a profile that takes all files at once has no use for it.
    from patchgen.formatting.format import format_all, recall_formatted

    settings = cache.project.config.settings
    files: list[_File] = []
    for modular in modulars:
        # What one file depends on is not what another one depends on.
        file = _File(modular, recorder.for_another(), cache.load_answers(modular))
        files.append(file)
        step = functools.partial(make_draft, modular.path, file.recorder, settings)
        with file.answers.at_hand():
            file.draft, file.problems = _catch(modular, step)
            if file.draft is not None:
                file.texts = recall_formatted(file.draft.request).answer
    waiting = [(file, file.draft.request) for file in files if file.draft and file.texts is None]
    formatted = format_all([request for _, request in waiting])
    for (file, _), texts in zip(waiting, formatted, strict=True):
        file.texts = texts
    for file in files:
        with file.answers.at_hand():
            flattened = None
            if file.draft is not None:
                finish = functools.partial(_finish, file.draft, file.texts)
                flattened, file.problems = _catch(file.modular, finish)
            flattened = flattened or Flattened(problems=file.problems)
            outcome = record(file.modular, flattened, file.recorder)
        file.answers.store()
        file.draft = None  # it holds all that was linked
        yield outcome


def _finish(draft: Draft, texts: dict[str, str] | PatchgenError | None) -> Flattened:
    from patchgen.formatting.format import recall_formatted

    if isinstance(texts, PatchgenError):
        raise texts
    assert texts is not None
    recall_formatted(draft.request).keep(texts)
    return draft.finish(texts)


def _catch(modular: Modular, step: Callable[[], _T]) -> tuple[_T | None, tuple[Problem, ...]]:
    """What `step` gives, or why it fails."""
    try:
        return step(), ()
    except PatchgenError as error:
        return None, tuple(problems_of(error))
    except MemoryError:
        what = "there is not enough memory to flatten it"
        return None, (Problem(Location(modular.display_path), "PG907", what),)
    except Exception as error:
        # The boundary of the core: an error that it did not foresee is ours, and the run goes on.
        return None, (defect(modular.display_path, error),)


# What a file depends on


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


def record(modular: Modular, flattened: Flattened, recorder: DependencyRecorder) -> Outcome:
    """The outcome of `modular` with everything that it depends on."""
    text, raw = _digests(modular.path)
    asked = sorted(recorder.asked.items())
    modules: dict[str, str] = {}
    for (question, module), path in asked:
        # Of several names of one file, the first counts.
        if question == "module":
            modules.setdefault(path, module)
    digests = {path: _raw_if_same(path, digest) for path, digest in recorder.read.items()}
    # A profile that works on many files at once says itself what it has read.
    further = flattened.reads or {}
    for read_path, digest in further.items():
        if read_path != modular.path:
            digests[str(read_path)] = digest
    reads = []
    for path, digest in sorted(digests.items()):
        module = modules.get(path, "")
        reads.append(Read(path, digest, module))
    lookups = [Lookup(*key, make_short(answer)) for key, answer in asked]
    own = Read(str(modular.path), raw)
    return make_outcome(modular, text, flattened, (own, *reads), tuple(lookups))


def _raw_if_same(path: str, text_digest: str) -> str:
    """The digest of the bytes at `path`, or "" when its text is not the one that was read."""
    raw = digest_of_file(path)
    # The usual text, in UTF-8 and with plain line ends, has the digest of its bytes.
    if raw == text_digest:
        return raw
    text, raw = _digests(Path(path))
    # Nothing was read of a file that could not be read.
    return raw if text_digest in ("", text) else ""


def _digests(path: Path) -> tuple[str, str]:
    """The sha256 of a file's text and of its bytes; both are empty where there is no file."""
    try:
        data = disk.read_bytes(path)
        # Characters that may be refused have a digest like any others.
        source = make_source(decode(data, path.name, allow_bidi=True), path.name)
        return source.digest, digest_of_bytes(data)
    except PatchgenError:
        return "", digest_of_bytes(data)
    except OSError:
        return "", ""
