"""Convert every variant on every release; nothing is written but the project's cache."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.releases import Release, chosen, order_of
from patchgen.project.cache import Cache
from patchgen.project.files import Modular, Project
from patchgen.project.outcome import Outcome
from patchgen.project.run import run
from patchgen.syntax.errors import PatchgenError

# Which releases


@dataclass(frozen=True)
class Wanted:
    """The releases to look at, oldest first, and those that were asked for and are not here.

    `ends` are those at which a range begins or ends: what lies between is not known.
    """

    releases: tuple[Release, ...]
    missing: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def wanted_releases(
    asked: Sequence[str], available: Sequence[Release], cache: Path, *, download: bool
) -> Wanted:
    """The releases that `asked` names, all that are known by default.

    A range means those that are known; with `download`, pip may fetch the others that are named.
    """
    nearest = list(reversed(available))
    picked = {} if asked else {release.version: release for release in nearest}
    missing: list[str] = []
    open_ends: list[str] = []
    for text in asked:
        first, dots, last = text.partition("..")
        try:
            there = chosen([text], nearest, cache, download=download)
        except PatchgenError:
            missing.append(text)
            continue
        picked |= {release.version: release for release in there}
        if dots and not Path(text).exists():
            for end in (first, last):
                # 5.4.1 is one of 5.4.
                order = order_of(end)
                open_ends += [] if any(r.order[: len(order)] == order for r in there) else [end]
    releases = tuple(sorted(picked.values(), key=lambda release: release.order))
    return Wanted(releases, tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(open_ends)))


# Every variant on every release


@dataclass(frozen=True)
class Survey:
    """The outcomes by variant and release; `unreadable` says why a release has none."""

    project: Project
    wanted: Wanted
    outcomes: Mapping[Modular, Mapping[str, Outcome]]
    unreadable: Mapping[str, str]

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those that could be read, oldest first."""
        return tuple(r for r in self.wanted.releases if r.version not in self.unreadable)


def survey_of(
    project: Project, modulars: Sequence[Modular], wanted: Wanted, progress: Callable[[int], None]
) -> Survey:
    """Convert each variant on each release; what an earlier run found is in the cache."""
    outcomes: dict[Modular, dict[str, Outcome]] = {modular: {} for modular in modulars}
    unreadable: dict[str, str] = {}
    for release in wanted.releases:
        try:
            there = on_release(project, release)
        except (OSError, PatchgenError) as error:
            unreadable[release.version] = str(error)
            continue
        for outcome in run(modulars, Cache(there), jobs=1, progress=progress):
            outcomes[outcome.modular][release.version] = outcome
    return Survey(project, wanted, outcomes, unreadable)


def on_release(project: Project, release: Release) -> Project:
    """The project with another release of transformers."""
    return replace(project, package_root=release.root())


# What a person reads


class State(enum.StrEnum):
    """The state of a variant on a release, compared with the release before it in the table."""

    SAME = "converts"
    CHANGED = "converts, to another output"
    EDIT = "an edit does not match"
    MEMBER = "a member is missing"
    PARENT = "a parent is missing"
    REFUSED = "is refused"
    UNREADABLE = "cannot be read"


CONVERTS = frozenset({State.SAME, State.CHANGED})
_CAUSES = {
    State.UNREADABLE: {"PG001", "PG002", "PG003", "PG004", "PG005", "PG006"},
    State.PARENT: {"PG101", "PG103"},
    State.MEMBER: {"PG212", "PG215", "PG230", "PG304"},
}


def digests_of(outcome: Outcome) -> dict[str, str]:
    """The digests of outputs by their names."""
    return {output.name: output.digest for output in outcome.outputs}


def states_of(outcomes: Mapping[str, Outcome], versions: Sequence[str]) -> dict[str, State]:
    """The state for each release."""
    states = {}
    before: Outcome | None = None
    for version in versions:
        outcome = outcomes.get(version)
        if outcome is None:
            states[version] = State.UNREADABLE
            continue
        codes = {problem.code for problem in outcome.problems}
        other = State.EDIT if any(code.startswith("PG3") for code in codes) else State.REFUSED
        # The problem that causes the others decides.
        causes = (state for state, its_codes in _CAUSES.items() if codes & its_codes)
        states[version] = next(causes, other) if codes else State.SAME
        is_between = before is not None and not before.problems and not outcome.problems
        if before is not None and is_between and digests_of(before) != digests_of(outcome):
            states[version] = State.CHANGED
        before = outcome
    return states
