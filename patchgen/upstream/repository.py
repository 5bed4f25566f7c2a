"""Convert many modular files of transformers, in the order in which they need each other.

In: paths of modular files.  Out: one `Flattened` each, in the order given.  A file outside the run
is a parent as it is on disk.  An output of the run is a parent as the run makes it, even if it is
not on disk yet.

Usually the tree is right.  So everything is first converted against the disk, and formatted in one
batch.  Only where an output differs from the disk are the files made again that derive from it,
level by level.  Processes are forked: a new interpreter would first read and parse the same parents
again.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.compiler.flat import FlatFile, Flattened, Summary, UsedSymbol
from patchgen.syntax.errors import Location, PatchgenError, Problem, defect, problems_of
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import decode, read_bytes
from patchgen.system import can_fork, run_in_process, run_in_workers
from patchgen.upstream.convert import convert
from patchgen.upstream.names import KINDS
from patchgen.upstream.style import style

FILES_THAT_PAY = 20  # fewer are done sooner than a process is forked and has sent its results
# By text, wherever it stands: the syntax trees of all files would cost a tenth of the whole run.
_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+(?:transformers\.models\.|\.\.\.models\.|\.\.)(\w+)\."
    rf"(?:{'|'.join(sorted(KINDS, key=len, reverse=True))})_(\w+)[ \t]+import\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Files:
    """A memory of files; `fresh` are the texts of outputs that differ from what is on disk."""

    fresh: dict[Path, str] = field(default_factory=dict)
    _on_disk: dict[Path, tuple[str, str] | None] = field(default_factory=dict, repr=False)
    _asked: dict[Path, str] = field(default_factory=dict, repr=False)

    def text(self, path: Path) -> str | None:
        """The text of the file at `path`, fresh if there is one; None where there is no file.

        Raises PatchgenError PG001 to PG004 for a file that cannot be read.
        """
        fresh = self.fresh.get(path)
        if fresh is not None:
            self._asked[path] = hashlib.sha256(fresh.encode()).hexdigest()
            return fresh
        text, digest = self._read(path) or (None, "")
        # A missing file is recorded too: should it come into being, the result may be another one.
        self._asked[path] = digest
        return text

    def on_disk(self, path: Path) -> str | None:
        """The text of the file as it is on disk; None where there is none."""
        file = self._read(path)
        return file[0] if file else None

    @contextmanager
    def asked(self) -> Iterator[Mapping[Path, str]]:
        """The files whose texts are read inside the `with` block, with the sha256 of their bytes.

        The digest is empty for missing files.
        """
        self._asked.clear()
        yield self._asked

    def _read(self, path: Path) -> tuple[str, str] | None:
        """The text and the digest of a file, read once; None where there is none."""
        if path not in self._on_disk:
            # Also what is missing is remembered: most files are asked for many times.
            self._on_disk[path] = None
            if path.exists():
                data = read_bytes(path, path.as_posix())
                # Whoever wrote these files is trusted with the characters in them: their copies are
                # what is wanted.
                text = decode(data, path.as_posix(), allow_bidi=True)
                self._on_disk[path] = text, hashlib.sha256(data).hexdigest()
        return self._on_disk[path]


@dataclass(frozen=True, slots=True)
class Result:
    """What one modular file gives.

    It has texts by kind, or problems; `reads` are the files that it depends on, with digests.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[Path, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def flatten_repository(paths: Sequence[Path], env: Environment, jobs: int) -> Iterator[Flattened]:
    """What each of `paths` gives, in their order."""
    collecting = gc.isenabled()
    # There are no cycles to speak of, and a collection would walk all that is remembered.
    gc.disable()
    try:
        results = _Run(paths, env, jobs).results()
    finally:
        if collecting:
            gc.enable()
    for path in paths:
        yield _flattened(path, results[path], env)


class _Run:
    """The state of one run.

    These are the results so far, and the new texts that later files derive from.
    """

    def __init__(self, paths: Sequence[Path], env: Environment, jobs: int) -> None:
        self.env = env
        self.jobs = jobs
        self.files = Files()
        self.results_of: dict[Path, Result] = {}
        texts: dict[Path, str] = {}
        for path in paths:
            try:
                texts[path] = self.files.on_disk(path) or ""
            except PatchgenError as error:
                # The file takes no part in the order of the others.
                self.results_of[path] = Result(problems=problems_of(error))
        self.order = make_order(texts)

    def results(self) -> Mapping[Path, Result]:
        """Convert until all results fit each other."""
        for path in self.order.stuck:
            self.results_of[path] = _on_cycle(path, self.order.cycle, self.env)
        # All at once, and against the disk: if the tree is right, this is all there is to do.
        waiting = sorted(itertools.chain.from_iterable(self.order.levels))
        self._convert(list(filter(self._has_parents, waiting)))
        # From the files without parents upwards, so that each is converted once more at most.
        for level in self.order.levels:
            self._convert(list(filter(self._is_outdated, level)))
            for path in level:
                texts = self.results_of[path].texts
                for kind, text in texts.items():
                    output = _output(path, kind)
                    if self.files.on_disk(output) != text:
                        self.files.fresh[output] = text
        return self.results_of

    def _has_parents(self, path: Path) -> bool:
        """Whether every modular file that `path` needs has some output on disk.

        Converting finds out which one is needed.
        """
        for needed in self.order.needs[path]:
            if all(self.files.on_disk(_output(needed, kind)) is None for kind in KINDS):
                return False
        return True

    def _is_outdated(self, path: Path) -> bool:
        result = self.results_of.get(path)
        return result is None or not self.files.fresh.keys().isdisjoint(result.reads)

    def _convert(self, paths: Sequence[Path]) -> None:
        """Convert `paths`, none of which needs another, in as many processes as pay."""
        if not paths:
            return
        jobs = self.jobs if can_fork() and len(paths) >= FILES_THAT_PAY else 1
        # Processes, or threads in one process, but not both.
        threads = 1 if jobs > 1 else self.jobs
        work = functools.partial(_convert_batch, files=self.files, env=self.env, threads=threads)
        parts = partition(paths, lambda path: len(self.files.on_disk(path) or ""), jobs)
        for part, results in zip(parts, run_in_workers(work, parts), strict=True):
            # A worker died: one of its files did it, and each is converted again by itself.
            if results is None:
                for path in part:
                    at = Location(self.env.display_path(path))
                    what = "the process that flattened this file died"
                    hint = (
                        "it crashed or was killed for its memory; please report it together with "
                        "the file"
                    )
                    died = {path: Result(problems=(Problem(at, "PG909", what, hint),))}
                    self.results_of |= run_in_process(work, [path]) or died
            self.results_of |= results or {}


def _convert_batch(
    paths: Sequence[Path], files: Files, env: Environment, threads: int
) -> dict[Path, Result]:
    """Convert `paths`, none of which needs another, and format the results in one call."""
    results = {path: _convert_one(path, files, env) for path in paths}
    texts = {}
    for path, result in results.items():
        for kind, text in result.texts.items():
            texts[_in_package(_output(path, kind))] = text
    # To start ruff takes longer than to format a file.
    styled = style(texts, threads)
    for path, raw in results.items():
        outputs = {_in_package(_output(path, kind)): kind for kind in raw.texts}
        problems = []
        for fault in styled.faults:
            if fault.path in outputs:
                output = _output(path, outputs[fault.path])
                at = Location(env.display_path(output), fault.line, 1)
                problems.append(Problem(at, fault.code, fault.what))
        # All or none: its other outputs may import from the one that is wrong.
        if problems:
            results[path] = replace(raw, texts={}, problems=tuple(sorted(problems)))
        else:
            formatted = {kind: styled.texts[name] for name, kind in outputs.items()}
            results[path] = replace(raw, texts=formatted)
    return results


def _convert_one(path: Path, files: Files, env: Environment) -> Result:
    """The texts before formatting; an error in one file is a problem of that file only."""
    display_path = env.display_path(path)
    with files.asked() as asked:
        try:
            texts = {output.kind: output.text for output in convert(path, files.text)}
            return Result(texts, dict(asked))
        except PatchgenError as error:
            moved = []
            for problem in problems_of(error):
                at = replace(problem.at, path=env.display_path(Path(problem.at.path)))
                moved.append(replace(problem, at=at))
            problems = tuple(moved)
        # Other files may still fit.
        except MemoryError:
            what = "there is not enough memory to flatten it"
            problems = (Problem(Location(display_path), "PG907", what),)
        except Exception as error:
            # The boundary of the core: an error that it did not foresee is ours, and the run goes
            # on.
            problems = (defect(display_path, error),)
        return Result({}, dict(asked), problems)


def _flattened(path: Path, result: Result, env: Environment) -> Flattened:
    """`result` as the project takes it; parents are given as files."""
    used = []
    for read, digest in sorted(result.reads.items()):
        # The tables of `auto` are read for every file, and are nobody's parent.
        if read != path and read.parent.name != "auto":
            symbol = ".".join(read.with_suffix("").parts[-2:])
            used.append(UsedSymbol(symbol, digest, env.display_path(read)))
    parents = tuple(used)
    summary = Summary(parents=tuple(parent.symbol for parent in parents))
    files = tuple(
        FlatFile(kind, _output(path, kind).name, text, parents, summary=summary)
        for kind, text in sorted(result.texts.items())
    )
    return Flattened(files, result.problems, result.reads)


def _on_cycle(path: Path, cycle: Sequence[Path], env: Environment) -> Result:
    """The problem of a file that no order of conversion can serve."""
    names = " -> ".join(file.name for file in cycle)
    what = f"needs files that derive from themselves: {names}"
    if path in cycle:
        what = f"derives from itself: {names}"
    hint = "let one of them derive from a file that is written by hand"
    return Result(problems=(Problem(Location(env.display_path(path)), "PG630", what, hint),))


def _output(path: Path, kind: str) -> Path:
    return path.with_name(path.name.replace("modular", kind, 1))


def _in_package(path: Path) -> str:
    return "/".join(path.parts[-3:])


@dataclass(frozen=True, slots=True)
class Order:
    """`levels` in order, each sorted.

    `needs` maps a file to those that it derives from.  `stuck` are the files on a cycle and those
    that need them; `cycle` is one cycle, which ends with its start.
    """

    levels: tuple[tuple[Path, ...], ...]
    needs: Mapping[Path, frozenset[Path]]
    stuck: tuple[Path, ...] = ()
    cycle: tuple[Path, ...] = ()


def make_order(texts: Mapping[Path, str]) -> Order:
    """The order in which a file follows those whose outputs it derives from.

    Only files of the run are looked at; no parent has to exist.  Files on a cycle, and files that
    need them, are in `stuck` and in no level.
    """
    needs: dict[Path, frozenset[Path]] = {}
    for path, text in texts.items():
        models = path.parent.parent
        # data2vec has two modular files in its folder.
        modulars = {
            models / folder / f"modular_{name}.py" for folder, name in _IMPORT.findall(text)
        }
        needs[path] = frozenset(modulars) & texts.keys() - {path}
    levels = []
    waiting = dict(needs)
    while True:
        ready = sorted(path for path in waiting if not waiting[path] & waiting.keys())
        if not ready:
            break
        levels.append(tuple(ready))
        waiting = {path: needed for path, needed in waiting.items() if path not in ready}
    # What is left waits for itself.
    stuck = sorted(waiting)
    return Order(tuple(levels), needs, tuple(stuck), _cycle(waiting))


def _cycle(waiting: Mapping[Path, frozenset[Path]]) -> tuple[Path, ...]:
    """One cycle among files that each wait for another one of them; () without files."""
    walked: list[Path] = []
    # Always the smallest, so that each run names the same cycle.
    path = min(waiting, default=None)
    while path is not None and path not in walked:
        walked.append(path)
        path = min(waiting[path] & waiting.keys())
    if path is None:
        return ()
    cycle = walked[walked.index(path) :]
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first], cycle[first])


def partition(paths: Sequence[Path], sizes: Callable[[Path], int], parts: int) -> list[list[Path]]:
    """Split `paths` into runs of about the same size; neighbours often share parents."""
    partitioned: list[list[Path]] = [[] for _ in range(parts)]
    total = max(1, sum(map(sizes, paths)))
    done = 0
    for path in paths:
        size = sizes(path)
        # A file belongs where the middle of it falls.
        middle = done + size // 2
        number = middle * parts // total
        number = min(number, parts - 1)
        partitioned[number].append(path)
        done += size
    return list(filter(None, partitioned))
