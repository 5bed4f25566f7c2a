"""Flatten the modular files of one profile, in order.

An error in one file does not stop the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.compiler.flat import Flattened
from patchgen.project.batch.answers import Answers
from patchgen.project.batch.outcome import Outcome
from patchgen.project.batch.recorder import make_recorder, record
from patchgen.project.files import Modular, Project
from patchgen.project.profiles import PROFILES
from patchgen.syntax.errors import Location, PatchgenError, Problem, defect, problems_of


def flatten_group(
    project: Project, profile: str, modulars: Sequence[Modular], answers: Answers, jobs: int = 1
) -> Iterator[Outcome]:
    """Yield the outcomes in order; `jobs` is for a profile that has workers of its own.

    An error in one file does not stop the next.
    """
    # Only where files are flattened one by one is it known which of them asks.
    answers = replace(answers, on=answers.on and PROFILES[profile].keeps)
    rest = list(modulars)
    recorder = make_recorder(project)
    # A generator that raised an error is over.  The profile then starts again behind that file.
    while rest:
        paths = [modular.path for modular in rest]
        results = PROFILES[profile].flatten(paths, recorder, project.config.settings, jobs)
        ended = False
        while rest and not ended:
            modular = rest.pop(0)
            # What an earlier file depends on is not what this one depends on.
            recorder.forget()
            with answers.known_for(modular):
                flattened, ended = _next(modular, results)
                outcome = record(modular, flattened, recorder)
            yield outcome


def _next(modular: Modular, results: Iterator[Flattened]) -> tuple[Flattened, bool]:
    """The next result, and whether `results` has ended.

    A generator that has raised an error yields nothing more.
    """
    try:
        return next(results), False
    except PatchgenError as error:
        return Flattened(problems=problems_of(error)), True
    except MemoryError:
        what = "there is not enough memory to flatten it"
        return Flattened(problems=(Problem(Location(modular.display_path), "PG907", what),)), True
    except Exception as error:
        # The boundary of the core: an error that it did not foresee is ours, and the run goes on.
        return Flattened(problems=(defect(modular.display_path, error),)), True
