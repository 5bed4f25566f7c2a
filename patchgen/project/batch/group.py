"""Flatten the modular files of one profile, in order.

Files that do not need each other take turns: each goes on until its texts have to be formatted, and
then the texts of all of them are formatted together, because starting the formatter takes longer.

An error in one file does not stop the next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.compiler.flat import Flattened
from patchgen.project.batch.answers import Answers, FileAnswers
from patchgen.project.batch.outcome import Outcome
from patchgen.project.batch.recorder import DependencyRecorder, make_recorder, record
from patchgen.project.files import Modular, Project
from patchgen.project.profiles import PROFILES, Flatten, FlattenOne
from patchgen.syntax.errors import Location, PatchgenError, Problem, defect, problems_of

if TYPE_CHECKING:
    from patchgen.compiler.emit.format import Formatted, Request, Steps

# More would save no more than they take in memory: each holds all that it has linked.
FILES_AT_ONCE = 16


def flatten_group(
    project: Project, profile: str, modulars: Sequence[Modular], answers: Answers, jobs: int = 1
) -> Iterator[Outcome]:
    """Yield the outcomes in order; `jobs` is for a profile that has workers of its own.

    An error in one file does not stop the next.
    """
    chosen, recorder = PROFILES[profile], make_recorder(project)
    if chosen.flatten is not None:
        yield from _flatten_together(project, chosen.flatten, modulars, recorder, jobs)
    elif chosen.flatten_one is not None:
        for first in range(0, len(modulars), FILES_AT_ONCE):
            batch = modulars[first : first + FILES_AT_ONCE]
            yield from _flatten_in_turns(project, chosen.flatten_one, batch, recorder, answers)


def _flatten_together(
    project: Project,
    flatten: Flatten,
    modulars: Sequence[Modular],
    recorder: DependencyRecorder,
    jobs: int,
) -> Iterator[Outcome]:
    """Yield the outcomes of files that need each other."""
    rest = list(modulars)
    # A generator that raised an error is over.  The profile then starts again behind that file.
    while rest:
        paths = [modular.path for modular in rest]
        results = flatten(paths, recorder, project.config.settings, jobs)
        ended = False
        while rest and not ended:
            modular = rest.pop(0)
            # What an earlier file depends on is not what this one depends on.
            recorder.forget()
            flattened, ended = _catch(modular, functools.partial(next, results))
            assert flattened is not None
            yield record(modular, flattened, recorder)


@dataclass(slots=True)
class _Turns:
    """A file that is flattened in turns with others.

    After each turn it has a `request` that has to be answered before the next, or its `outcome`.
    """

    modular: Modular
    steps: Steps[Flattened]
    recorder: DependencyRecorder
    known: FileAnswers
    request: Request | None = None
    outcome: Outcome | None = None

    def take(self, answer: Formatted | None = None) -> None:
        """Begin, or go on with the `answer` to the request."""
        with self.known.at_hand():
            flattened, _ = _catch(self.modular, functools.partial(self._go_on, answer))
            if flattened is not None:
                self.outcome = record(self.modular, flattened, self.recorder)
                self.known.store()

    def _go_on(self, answer: Formatted | None) -> Flattened | None:
        """What the file gives at its end; None where it has another request."""
        self.request = None
        try:
            self.request = next(self.steps) if answer is None else self.steps.send(answer)
        except StopIteration as end:
            flattened: Flattened = end.value
            return flattened
        return None


def _flatten_in_turns(
    project: Project,
    flatten_one: FlattenOne,
    modulars: Sequence[Modular],
    recorder: DependencyRecorder,
    answers: Answers,
) -> Iterator[Outcome]:
    """Yield the outcomes of files that do not need each other, in order."""
    files: list[_Turns] = []
    for modular in modulars:
        # What one file depends on is not what another one depends on.
        own = recorder.for_another()
        steps = flatten_one(modular.path, own, project.config.settings)
        files.append(_Turns(modular, steps, own, answers.load(modular)))
        files[-1].take()
    _answer_requests(files)
    for file in files:
        assert file.outcome is not None
        yield file.outcome


def _answer_requests(files: Sequence[_Turns]) -> None:
    """Let all `files` go on to their ends."""
    waiting = [file for file in files if file.request is not None]
    while waiting:
        # Imported here: a run that knows what all texts give needs no formatter.
        from patchgen.compiler.emit.format import format_all

        formatted = format_all([file.request for file in waiting if file.request is not None])
        for file, answer in zip(waiting, formatted, strict=True):
            file.take(answer)
        waiting = [file for file in waiting if file.request is not None]


def _catch(modular: Modular, step: Callable[[], Flattened | None]) -> tuple[Flattened | None, bool]:
    """What `step` gives, and whether it failed, so that its generator yields nothing more."""
    try:
        return step(), False
    except PatchgenError as error:
        return Flattened(problems=problems_of(error)), True
    except MemoryError:
        what = "there is not enough memory to flatten it"
        return Flattened(problems=(Problem(Location(modular.display_path), "PG907", what),)), True
    except Exception as error:
        # The boundary of the core: an error that it did not foresee is ours, and the run goes on.
        return Flattened(problems=(defect(modular.display_path, error),)), True
