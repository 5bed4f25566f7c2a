"""Flatten many modular files: from the cache where nothing changed, else here or in workers.

In: the project and its modular files.  Out: an `Outcome` for each, in the order of the files,
whatever the number of workers.  An error in one file is in its outcome, and does not affect the
others.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from patchgen.project.batch.cache import Cache
from patchgen.project.batch.outcome import Outcome
from patchgen.project.files import Modular, Project
from patchgen.project.profiles import PROFILES

if TYPE_CHECKING:
    from patchgen.project.batch.answers import Answers

FILES_THAT_PAY = 4  # a worker takes about as long to start as so many files take to flatten

Progress = Callable[[int], None]  # called with the number of files that have just been done


def run(
    project: Project,
    modulars: Sequence[Modular],
    cache: Cache,
    jobs: int = 0,
    progress: Progress = lambda done: None,
) -> tuple[Outcome, ...]:
    """The outcome of every modular file, in order.  New outcomes are stored in the cache.

    `jobs` is the number of processes; 0 takes one for each processor, where that saves time.
    """
    known = _load_known(modulars, cache)
    rest = [modular for modular in modulars if modular not in known]
    progress(len(modulars) - len(rest))
    if rest:
        _complete(known, project, rest, cache, jobs, progress)
    return tuple(known[modular] for modular in modulars)


def _complete(
    known: dict[Modular, Outcome],
    project: Project,
    rest: Sequence[Modular],
    cache: Cache,
    jobs: int,
    progress: Progress,
) -> None:
    """Add the outcomes of `rest` to those that are `known`."""
    # Imported here: it loads what writes files, and most runs find nothing to flatten.
    from patchgen.project.batch.answers import Answers

    answers = Answers(project, cache.on)
    for outcome in _flatten_all(answers, rest, jobs or _enough(len(rest))):
        cache.store(outcome)
        known[outcome.modular] = outcome
        progress(1)
    # What was made from outputs that are other ones now has to be made again.
    moved = [m for m in rest if _is_chained(m) and not cache.is_made(known[m])]
    again = with_dependents(moved, known)
    # A chained profile puts parents first, so that files of the same run fit each other already.
    if set(rest).issuperset(again):
        again = []
    for outcome in _flatten_all(answers, again, jobs or _enough(len(again))):
        cache.store(outcome)
        known[outcome.modular] = outcome


def _load_known(modulars: Sequence[Modular], cache: Cache) -> dict[Modular, Outcome]:
    """The outcomes that the cache has and that are enough for this run."""
    known: dict[Modular, Outcome] = {}
    for modular in modulars:
        outcome = cache.load(modular)
        if outcome is None:
            continue
        # Outputs that are parents of others have to be there, with the text that they should have.
        if _is_chained(modular) and not cache.is_made(outcome):
            continue
        known[modular] = outcome
    return known


def _is_chained(modular: Modular) -> bool:
    """Whether outputs of such files are parents of other outputs."""
    return PROFILES[modular.profile].chained


def with_dependents(moved: Sequence[Modular], known: Mapping[Modular, Outcome]) -> list[Modular]:
    """`moved`, and every file that was made from their outputs on disk, sorted."""
    if not moved:
        return []
    readers: dict[str, list[Modular]] = {}
    for modular, outcome in known.items():
        for read in outcome.reads:
            readers.setdefault(read.path, []).append(modular)
    found, waiting = set(moved), list(moved)
    while waiting:
        outcome = known[waiting.pop()]
        new: set[Modular] = set()
        for path, _ in outcome.files:
            new.update(readers.get(str(path), ()))
        # Their outputs may be parents in turn.
        new -= found
        found |= new
        waiting += new
    return sorted(found)


def _enough(files: int) -> int:
    """The number of processes that pay for so many files."""
    # A container or `taskset` may allow fewer processors than the machine has.
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    return max(1, min(processors, files // FILES_THAT_PAY))


def _flatten_all(answers: Answers, modulars: Sequence[Modular], jobs: int) -> Iterator[Outcome]:
    """Yield outcomes in any order, by groups that share a profile."""
    if not modulars:
        return
    # Imported here: it loads what reads sources, and most runs find nothing to flatten.
    from patchgen.project.batch.group import flatten_group

    # `groupby` joins neighbours only.
    by_profile = sorted(modulars, key=lambda m: (m.profile, m))
    for profile, members in itertools.groupby(by_profile, lambda m: m.profile):
        group = tuple(members)
        chunks = PROFILES[profile].split(group, jobs)
        if jobs > 1 and len(chunks) > 1:
            # Most runs need no processes, and no library for them.
            from patchgen.project.batch.pool import in_workers

            yield from in_workers(answers, profile, chunks, jobs)
        else:
            yield from flatten_group(answers.project, profile, group, answers, jobs)
