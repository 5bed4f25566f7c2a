"""Convert every variant on every release; nothing is written but the project's cache."""

from __future__ import annotations

import enum
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.releases import Release, chosen, order_of
from patchgen.project.cache import Cache
from patchgen.project.files import Modular, Project
from patchgen.project.outcome import Outcome
from patchgen.project.run import run
from patchgen.syntax.errors import Location, PatchgenError

_LIST = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


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
    asked: Sequence[str], known: Sequence[Release], cache: Path, *, download: bool
) -> Wanted:
    """The releases that `asked` names, all that are known by default.

    With `download`, a range means every release that the package index has.
    """
    nearest = list(reversed(known))
    found = {} if asked else {release.version: release for release in nearest}
    missing: list[str] = []
    open_ends: list[str] = []
    for text in asked:
        first, dots, last = text.partition("..")
        is_range = bool(dots) and not Path(text).exists()
        for name in _between(first, last) if download and is_range else [text]:
            try:
                there = chosen([name], nearest, cache, download=download)
            except PatchgenError:
                missing.append(name)
                continue
            found |= {release.version: release for release in there}
            for end in (first, last) if is_range and not download else ():
                # 5.4.1 is one of 5.4.
                order = order_of(end)
                open_ends += [] if any(r.order[: len(order)] == order for r in there) else [end]
    releases = tuple(sorted(found.values(), key=lambda release: release.order))
    return Wanted(releases, tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(open_ends)))


def _between(first: str, last: str) -> list[str]:
    """The releases from `first` to `last` that the index has; `5.4` means all of 5.4."""
    low, high = order_of(first), order_of(last)
    fits = [v for v in _listed() if low <= order_of(v) and order_of(v)[: len(high)] <= high]
    if not fits:
        what = "names no release of transformers that the package index has"
        raise PatchgenError("PG807", Location(f"{first}..{last}"), what)
    return fits


def _listed() -> list[str]:
    command = [sys.executable, "-m", "pip", "index", "versions", "transformers"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check"], capture_output=True, text=True, check=False
    )
    found = _LIST.search(done.stdout)
    if found is None:
        why = (done.stderr.strip().splitlines() or ["pip listed none"])[-1]
        hint = "name a folder of wheels with --releases-dir"
        raise PatchgenError("PG807", Location("pip"), f"cannot list the releases: {why}", hint)
    return [version.strip() for version in found[1].split(",")]


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
    found: dict[str, State] = {}
    before: Outcome | None = None
    for version in versions:
        outcome = outcomes.get(version)
        if outcome is None:
            found[version] = State.UNREADABLE
            continue
        found[version] = _state_of_problems({problem.code for problem in outcome.problems})
        is_between = before is not None and not before.problems and not outcome.problems
        if before is not None and is_between and digests_of(before) != digests_of(outcome):
            found[version] = State.CHANGED
        before = outcome
    return found


def _state_of_problems(codes: set[str]) -> State:
    """The state that problems mean: the one that causes the others decides."""
    if not codes:
        return State.SAME
    for state, known in _CAUSES.items():
        if codes & known:
            return state
    return State.EDIT if any(code.startswith("PG3") for code in codes) else State.REFUSED
