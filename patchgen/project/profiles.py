"""The profiles by which modular files are flattened.

A profile either flattens one file, in steps between which its texts are formatted, or it takes a
group of files and yields one `Flattened` each, in the same order.  The strict profile works file by
file.  A profile in which one file needs another's output takes the group as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.compiler.flat import Flattened
from patchgen.compiler.settings import Settings
from patchgen.project.files import Modular
from patchgen.syntax.locate import Environment

if TYPE_CHECKING:
    from patchgen.compiler.emit.format import Steps

FlattenOne = Callable[[Path, Environment, Settings], "Steps[Flattened]"]
Flatten = Callable[[Sequence[Path], Environment, Settings, int], Iterator[Flattened]]
Split = Callable[[Sequence[Modular], int], Sequence[Sequence[Modular]]]

# Fewer would leave workers idle at the end, more would index the same parents again.
CHUNKS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class Profile:
    """How a profile works on a group of files.

    `flatten_one` takes one file, and lets what is made of its texts be kept for later runs.
    `flatten` takes many and yields one result per path, in order, with so many processes.  A
    profile has one of the two.  `split` partitions files among workers.  `chained`: outputs are
    parents of other files, so that all files of a run are flattened together.
    """

    name: str
    split: Split
    flatten_one: FlattenOne | None = None
    flatten: Flatten | None = None
    chained: bool = False


def evenly(modulars: Sequence[Modular], jobs: int) -> Sequence[Sequence[Modular]]:
    """Partition files into runs of neighbours, which often share parents."""
    # Rounded up: with the remainder in a chunk of its own, one worker would start late.
    size = max(1, -(-len(modulars) // (jobs * CHUNKS_PER_WORKER)))
    return [modulars[first : first + size] for first in range(0, len(modulars), size)]


def together(modulars: Sequence[Modular], jobs: int) -> Sequence[Sequence[Modular]]:
    """Keep all files in one part: the profile has workers of its own."""
    return [modulars]


def _flatten_strictly(path: Path, env: Environment, settings: Settings) -> Steps[Flattened]:
    # Imported here: a run that finds everything in its cache never loads the core.
    from patchgen.compiler.flatten import flatten_in_steps

    return flatten_in_steps(path, env, settings)


def _flatten_as_transformers(
    paths: Sequence[Path], env: Environment, settings: Settings, jobs: int
) -> Iterator[Flattened]:
    # Neither does it load these rules.
    from patchgen.upstream.repository import flatten_repository

    return flatten_repository(paths, env, jobs)


def _lint(path: Path, env: Environment, settings: Settings) -> Steps[Flattened]:
    # Nor these, which only `patchgen lint` needs.
    from patchgen.lint import with_findings
    from patchgen.syntax.text import read_source

    flat = yield from _flatten_strictly(path, env, settings)
    name = env.display_path(path.parent.resolve() / path.name)
    return with_findings(flat, read_source(path, "", name, allow_bidi=env.allow_bidi))


# What it gives is not written: it is how the files of a project go through workers and cache to be
# linted.
LINT = "lint"
PROFILES: Mapping[str, Profile] = {
    "strict": Profile("strict", evenly, _flatten_strictly),
    "transformers": Profile(
        "transformers", together, flatten=_flatten_as_transformers, chained=True
    ),
    LINT: Profile(LINT, evenly, _lint),
}
