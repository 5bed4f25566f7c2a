"""Convert many modular files of transformers, in the order in which they need each other.

In: paths of modular files.  Out: one `Flattened` each, in the order given.  A file outside the run
is a parent as it is on disk.  An output of the run is a parent as the run makes it, even if it is
not on disk yet.

Usually the tree is right.  So everything is first converted against the disk, and formatted in one
batch.  Only where an output differs from the disk are the files made again that derive from it,
level by level.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.compiler.flat import FlatFile, Flattened, Summary, UsedSymbol
from patchgen.syntax.errors import Location, PatchgenError, Problem, defect, problems_of
from patchgen.syntax.locate import Environment
from patchgen.upstream.convert import convert
from patchgen.upstream.files import Files
from patchgen.upstream.names import KINDS
from patchgen.upstream.schedule import Order, make_order
from patchgen.upstream.style import Fault, style
from patchgen.upstream.workers import can_fork, partition, run_in_process, run_in_workers

FILES_THAT_PAY = 20  # fewer are done sooner than a process is forked and has sent its results


@dataclass(frozen=True, slots=True)
class Result:
    """What one modular file gives.

    It has texts by kind, or problems; `reads` are the files that it depends on, with digests.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[Path, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def flatten_repository(
    paths: Sequence[Path], env: Environment, jobs: int = 1
) -> Iterator[Flattened]:
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
        self.made: dict[Path, Result] = {}
        texts = {path: self._modular_text(path) for path in paths}
        self.order = make_order({path: text for path, text in texts.items() if text is not None})

    def results(self) -> Mapping[Path, Result]:
        """Convert until all results fit each other."""
        self.made |= {path: _on_cycle(path, self.order, self.env) for path in self.order.stuck}
        # All at once, and against the disk: if the tree is right, this is all there is to do.
        self._convert([path for path in self._waiting() if self._has_parents(path)])
        # From the files without parents upwards, so that each is converted once more at most.
        for level in self.order.levels:
            outdated = [path for path in level if path not in self.made or self._is_outdated(path)]
            self._convert(outdated)
            for path in level:
                self.files.fresh.update(self._differing(path))
        return self.made

    def _modular_text(self, path: Path) -> str | None:
        """The text of a modular file; None for one that cannot be read."""
        try:
            return self.files.on_disk(path) or ""
        except PatchgenError as error:
            # The file takes no part in the order of the others.
            self.made[path] = Result(problems=problems_of(error))
            return None

    def _waiting(self) -> list[Path]:
        return sorted(path for level in self.order.levels for path in level)

    def _has_parents(self, path: Path) -> bool:
        """Whether every modular file that `path` needs has some output on disk.

        Converting finds out which one is needed.
        """
        return all(self._has_output(needed) for needed in self.order.needs[path])

    def _has_output(self, path: Path) -> bool:
        return any(self.files.on_disk(_output(path, kind)) is not None for kind in KINDS)

    def _is_outdated(self, path: Path) -> bool:
        return not self.files.fresh.keys().isdisjoint(self.made[path].reads)

    def _differing(self, path: Path) -> Iterator[tuple[Path, str]]:
        """The outputs of `path` that differ from the disk."""
        for kind, text in self.made[path].texts.items():
            output = _output(path, kind)
            if self.files.on_disk(output) != text:
                yield output, text

    def _convert(self, paths: Sequence[Path]) -> None:
        """Convert `paths`, none of which needs another, in as many processes as pay."""
        if not paths:
            return
        jobs = self.jobs if can_fork() and len(paths) >= FILES_THAT_PAY else 1
        # Processes, or threads in one process, but not both.
        threads = 1 if jobs > 1 else self.jobs
        work = functools.partial(convert_batch, files=self.files, env=self.env, threads=threads)
        parts = partition(paths, lambda path: len(self.files.on_disk(path) or ""), jobs)
        for part, results in zip(parts, run_in_workers(work, parts), strict=True):
            # A worker died: one of its files did it.
            if results is None:
                results = {path: self._again(work, path) for path in part}
            self.made |= results

    def _again(self, work: functools.partial[dict[Path, Result]], path: Path) -> Result:
        """Convert one file of a process that died, because another file may have caused that."""
        results = run_in_process(work, [path])
        if results is not None:
            return results[path]
        at = Location(self.env.display_path(path))
        what = "the process that flattened this file died"
        hint = "it crashed or was killed for its memory; please report it together with the file"
        return Result(problems=(Problem(at, "PG909", what, hint),))


def convert_batch(
    paths: Sequence[Path], files: Files, env: Environment, threads: int
) -> dict[Path, Result]:
    """Convert `paths`, none of which needs another, and format the results in one call."""
    raw = {path: _convert_one(path, files, env) for path in paths}
    texts: dict[str, str] = {}
    for path in paths:
        for kind, text in raw[path].texts.items():
            texts[_in_package(_output(path, kind))] = text
    # To start ruff takes longer than to format a file.
    styled = style(texts, threads)
    faults: dict[str, list[Fault]] = {}
    for fault in styled.faults:
        faults.setdefault(fault.path, []).append(fault)
    return {
        path: _finished(path, result, styled.texts, faults, env) for path, result in raw.items()
    }


def _convert_one(path: Path, files: Files, env: Environment) -> Result:
    """The texts before formatting; an error in one file is a problem of that file only."""
    with files.asked() as asked:
        try:
            texts = {output.kind: output.text for output in convert(path, files.text)}
            return Result(texts, dict(asked))
        except PatchgenError as error:
            found = problems_of(error)
            problems = tuple(replace(one, at=_locate_for_display(one.at, env)) for one in found)
            return Result({}, dict(asked), problems)
        # Other files may still fit.
        except MemoryError:
            at = Location(env.display_path(path))
            problem = Problem(at, "PG907", "there is not enough memory to flatten it")
            return Result({}, dict(asked), (problem,))
        except Exception as error:
            # The boundary of the core: an error that it did not foresee is ours, and the run goes
            # on.
            return Result({}, dict(asked), (defect(env.display_path(path), error),))


def _finished(
    path: Path,
    raw: Result,
    texts: Mapping[str, str],
    faults: Mapping[str, Iterable[Fault]],
    env: Environment,
) -> Result:
    """`raw` with formatted texts, or with what the linter found."""
    outputs = {kind: _output(path, kind) for kind in raw.texts}
    problems: list[Problem] = []
    for output in outputs.values():
        for fault in faults.get(_in_package(output), ()):
            at = Location(env.display_path(output), fault.line, 1)
            problems.append(Problem(at, fault.code, fault.what))
    # All or none: its other outputs may import from the one that is wrong.
    if problems:
        return replace(raw, texts={}, problems=tuple(sorted(problems)))
    styled = {kind: texts[_in_package(output)] for kind, output in outputs.items()}
    return replace(raw, texts=styled)


def _flattened(path: Path, result: Result, env: Environment) -> Flattened:
    """`result` as the project takes it; parents are given as files."""
    used: list[UsedSymbol] = []
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


def _on_cycle(path: Path, order: Order, env: Environment) -> Result:
    """The problem of a file that no order of conversion can serve."""
    names = " -> ".join(one.name for one in order.cycle)
    what = (
        f"derives from itself: {names}"
        if path in order.cycle
        else f"needs files that derive from themselves: {names}"
    )
    hint = "let one of them derive from a file that is written by hand"
    return Result(problems=(Problem(Location(env.display_path(path)), "PG630", what, hint),))


def _locate_for_display(at: Location, env: Environment) -> Location:
    return replace(at, path=env.display_path(Path(at.path)))


def _output(path: Path, kind: str) -> Path:
    return path.with_name(path.name.replace("modular", kind, 1))


def _in_package(path: Path) -> str:
    return "/".join(path.parts[-3:])
