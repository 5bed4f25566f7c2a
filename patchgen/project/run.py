"""Flatten many modular files: from the cache where nothing changed, else here or in workers.

In: the project and its modular files.  Out: an `Outcome` for each, in the order of the files,
whatever the number of workers.  An error in one file is in its outcome, and does not affect the
others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from patchgen.project.cache import Cache
from patchgen.project.files import CHAINED, Modular
from patchgen.project.outcome import Outcome
from patchgen.system import processors

FILES_THAT_PAY = 4  # a worker takes about as long to start as so many files take to flatten
# Fewer would leave workers idle at the end, more would index the same parents again.
CHUNKS_PER_WORKER = 4

Progress = Callable[[int], None]  # called with the number of files that have just been done


def run(
    modulars: Sequence[Modular],
    cache: Cache,
    jobs: int = 0,
    progress: Progress = lambda done: None,
) -> tuple[Outcome, ...]:
    """The outcome of every modular file, in order.  New outcomes are stored in the cache.

    `jobs` is the number of processes; 0 takes one for each processor, where that saves time.
    """
    outcomes: dict[Modular, Outcome] = {}
    for modular in modulars:
        outcome = cache.load(modular)
        # Outputs that are parents of others have to be there, with the text that they should have.
        if outcome and (modular.profile not in CHAINED or cache.is_made(outcome)):
            outcomes[modular] = outcome
    rest = [modular for modular in modulars if modular not in outcomes]
    progress(len(outcomes))
    for outcome in _flatten(cache, rest, jobs):
        outcomes[outcome.modular] = outcome
        progress(1)
    # What was made from outputs that are other ones now has to be made again.
    moved = [m for m in rest if m.profile in CHAINED and not cache.is_made(outcomes[m])]
    again = with_dependents(moved, outcomes)
    # A chained profile puts parents first, so that files of the same run fit each other already.
    if not set(rest).issuperset(again):
        for outcome in _flatten(cache, again, jobs):
            outcomes[outcome.modular] = outcome
    if rest:
        cache.trim()
    return tuple(outcomes[modular] for modular in modulars)


def with_dependents(moved: Sequence[Modular], outcomes: Mapping[Modular, Outcome]) -> list[Modular]:
    """`moved`, and every file that was made from their outputs on disk, sorted."""
    readers: dict[str, list[Modular]] = {}
    if moved:
        for modular, outcome in outcomes.items():
            for read in outcome.reads:
                readers.setdefault(read.path, []).append(modular)
    dependents = set(moved)
    waiting = list(moved)
    while waiting:
        # Their outputs may be parents in turn.
        for path, _ in outcomes[waiting.pop()].files:
            new = {*readers.get(str(path), ())} - dependents
            dependents |= new
            waiting += new
    return sorted(dependents)


def _flatten(cache: Cache, modulars: Sequence[Modular], jobs: int) -> Iterator[Outcome]:
    """Yield outcomes in any order, by groups that share a profile, and store them."""
    if not modulars:
        return
    # Imported here: it loads what reads sources, and most runs find nothing to flatten.
    from patchgen.project.flattening import flatten_group

    jobs = jobs or _processes_that_pay(len(modulars))
    # `groupby` joins neighbours only.
    by_profile = sorted(modulars, key=lambda m: (m.profile, m))
    for profile, members in itertools.groupby(by_profile, lambda m: m.profile):
        group = tuple(members)
        chunks = _chunks(group, jobs)
        # A chained profile has workers of its own.
        if profile not in CHAINED and jobs > 1 and len(chunks) > 1:
            # Most runs need no processes, and no library for them.
            from patchgen.project.pool import in_workers

            outcomes = in_workers(cache, profile, chunks, jobs)
        else:
            outcomes = flatten_group(cache, profile, group, jobs)
        for outcome in outcomes:
            cache.store(outcome)
            yield outcome


def _chunks(modulars: Sequence[Modular], jobs: int) -> list[Sequence[Modular]]:
    """Partition files into runs of neighbours, which often share parents."""
    # Rounded up: with the remainder in a chunk of its own, one worker would start late.
    size = -(-len(modulars) // (jobs * CHUNKS_PER_WORKER))
    return [modulars[first : first + size] for first in range(0, len(modulars), size)]


def _processes_that_pay(files: int) -> int:
    """The number of processes that pay for so many files."""
    return max(1, min(processors(), files // FILES_THAT_PAY))
