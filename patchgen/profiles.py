"""By whose rules modular files are flattened: what a run needs to know of each profile, and no more.

A profile takes a group of files and gives one `Flattened` each, in the same order.  The strict profile works file by
file; a profile that knows of an order between files, or formats many at once, takes the group as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.errors import Location, Problem
from patchgen.flat import Flattened
from patchgen.project import Modular
from patchgen.settings import Settings
from patchgen.source.locate import Environment

Flatten = Callable[[Sequence[Path], Environment, Settings], Iterator[Flattened]]
Split = Callable[[Sequence[Modular], int], Sequence[Sequence[Modular]]]

CHUNKS_PER_WORKER = 4  # fewer would leave workers idle at the end, more would index the same parents again


@dataclass(frozen=True, slots=True)
class Profile:
    """`flatten` yields one result per path, in order; `split` deals files out to so many workers."""

    name: str
    flatten: Flatten
    split: Split


def evenly(modulars: Sequence[Modular], jobs: int) -> Sequence[Sequence[Modular]]:
    """Runs of neighbours, which often share parents."""
    size = max(1, -(-len(modulars) // (jobs * CHUNKS_PER_WORKER)))
    return [modulars[first : first + size] for first in range(0, len(modulars), size)]


def _flatten_strictly(paths: Sequence[Path], env: Environment, settings: Settings) -> Iterator[Flattened]:
    # Imported here: a run that finds everything in its cache never loads the core.
    from patchgen.flatten import flatten

    for path in paths:
        yield flatten(path, env, settings)


def _refuse(paths: Sequence[Path], env: Environment, settings: Settings) -> Iterator[Flattened]:
    # By the strict rules these files would get other outputs than those that transformers ships.
    for path in paths:
        what = "lies inside transformers, whose own files this patchgen does not convert"
        yield Flattened(problems=(Problem(Location(env.shown(path)), "PG910", what),))


PROFILES: Mapping[str, Profile] = {
    "strict": Profile("strict", _flatten_strictly, evenly),
    "transformers": Profile("transformers", _refuse, evenly),
}
