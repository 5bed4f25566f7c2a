"""The definition of the parent that makes the difference between two releases.

A variant converts on one of them, and not on the other.  Files of the release on which it converts
are exchanged for those of the other, one at a time; then the definitions of the file that brings
the problem, and then the members of that class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from patchgen.author.survive.parts import Part, changed_definitions, changed_members
from patchgen.author.survive.survey import Survey, Surveyor, digest_of_variant
from patchgen.author.survive.trial import Trial, try_on
from patchgen.author.survive.view import PACKAGES, View, is_upstream, make_view
from patchgen.project.files import Modular
from patchgen.project.outcome import unified
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.text import Source

NO_PARENT = ("PG101", "PG103")


@dataclass(frozen=True)
class Break:
    """Two neighbouring releases, of which only `converts` has what the variant needs.

    `definition` is the one that makes the difference, or the file; empty where it is no single
    file. `diff` is from the older to the newer one.
    """

    older: str
    newer: str
    converts: str
    problem: str
    definition: str
    diff: str

    @property
    def text(self) -> str:
        """What happened, in one line."""
        if not self.definition:
            what = "several files changed"
        elif self.is_missing:
            what = f"{self.definition} is {'gone' if self.converts == self.older else 'new'}"
        else:
            what = f"{self.definition} changed"
        if self.converts == self.older:
            return f"{self.newer} broke it: {what}"
        return f"converts since {self.newer}: {what}"

    @property
    def is_missing(self) -> bool:
        """Whether one of the releases has no such module or definition."""
        return self.problem.startswith(NO_PARENT)


def find_breaks(survey: Survey, surveyor: Surveyor) -> dict[Modular, tuple[Break, ...]]:
    """The breaks of each variant, for each pair of neighbouring releases with different answers."""
    views: dict[str, View] = {}
    found: dict[Modular, tuple[Break, ...]] = {}
    for modular, trials in survey.trials.items():
        finder = _Finder(modular, trials, survey, surveyor, views)
        found[modular] = tuple(finder.run())
    return found


@dataclass(frozen=True)
class _Finder:
    modular: Modular
    trials: Mapping[str, Trial]
    survey: Survey
    surveyor: Surveyor
    views: dict[str, View]

    def run(self) -> Iterator[Break]:
        for older, newer in zip(self.survey.releases, self.survey.releases[1:], strict=False):
            trials = self.trials[older.version], self.trials[newer.version]
            if trials[0].converts == trials[1].converts:
                continue
            yield self._known(older.version, newer.version)

    def _known(self, older: str, newer: str) -> Break:
        """The break between two releases, from the book or worked out."""
        book = self.surveyor.book
        digests = [self._view(version).files.digest for version in (older, newer)]
        key = " ".join(["break", digest_of_variant(self.modular), *digests])
        known = book.notes.get(key)
        if isinstance(known, Mapping):
            return Break(**known)
        made = self._find(older, newer)
        book.note(key, asdict(made))
        return made

    def _find(self, older: str, newer: str) -> Break:
        converts, fails = (older, newer) if self.trials[older].converts else (newer, older)
        problem = self.trials[fails].problems[0]
        views = self._view(converts), self._view(fails)
        definition, diff = "", ""
        for module in self._changed_modules(views, problem):
            if self._brings(module, _text(views[1], module), views[0], problem):
                definition, parts = self._narrow(module, views, problem)
                diff = _diff_of(parts, definition, is_forwards=converts == older)
                break
        message = f"{problem.code} {problem.what}"
        return Break(older, newer, converts, message, definition, diff)

    def _view(self, version: str) -> View:
        if version not in self.views:
            release = next(r for r in self.survey.releases if r.version == version)
            self.views[version] = self.surveyor.view(release)
        return self.views[version]

    def _changed_modules(self, views: tuple[View, View], problem: Problem) -> list[str]:
        """The modules that the variant reads and that differ, those of its models first."""
        asked = [*self.trials[views[0].files.version].facts]
        modules = [q.partition(" ")[2] for q in asked if q != PACKAGES and q.startswith("file ")]
        changed = [
            module
            for module in modules
            if is_upstream(module)
            and views[0].answer(f"file {module}") != views[1].answer(f"file {module}")
        ]
        text = _words(problem)
        return sorted(changed, key=lambda m: (m not in text, ".models." not in m, m))

    def _brings(self, module: str, text: str | None, view: View, problem: Problem) -> bool:
        """Whether the release gives the same problem with another text for one of its files."""
        name = view.files.name_of(module)
        files = view.files.with_file(name, None if text is None else text.encode())
        other = make_view(files, self.surveyor.own, self.surveyor.parsed)
        trial = try_on(self.modular, other, self.surveyor.settings)
        return any(_is_same(one, problem) for one in trial.problems)

    def _narrow(
        self, module: str, views: tuple[View, View], problem: Problem
    ) -> tuple[str, tuple[str, str]]:
        """The smallest definition of a module that brings the problem, and both its versions."""
        here, there = (_source(view, module) for view in views)
        if here is None or there is None:
            return module, ("", "")
        part = self._first(module, changed_definitions(here, there), here, views[0], problem)
        if part is None:
            return module, ("", "")
        members = changed_members(here, there, part.name)
        inner = self._first(module, members, here, views[0], problem)
        if inner is None:
            return f"{module}.{part.name}", (part.here, part.there)
        return f"{module}.{part.name}.{inner.name}", (inner.here, inner.there)

    def _first(
        self, module: str, parts: Iterable[Part], here: Source, view: View, problem: Problem
    ) -> Part | None:
        text = _words(problem)
        for part in sorted(parts, key=lambda part: part.name not in text):
            if self._brings(module, part.exchanged(here), view, problem):
                return part
        return None


def _source(view: View, module: str) -> Source | None:
    try:
        return view.source(module, Location(module))
    except PatchgenError:
        return None


def _text(view: View, module: str) -> str | None:
    source = _source(view, module)
    return None if source is None else source.text


def _words(problem: Problem) -> str:
    return f"{problem.what} {problem.hint}"


def _is_same(one: Problem, other: Problem) -> bool:
    """Whether two problems are about the same place of a variant."""
    return (one.code, one.at.path, one.at.line) == (other.code, other.at.path, other.at.line)


def _diff_of(versions: Sequence[str], name: str, *, is_forwards: bool) -> str:
    old, new = versions if is_forwards else (versions[1], versions[0])
    return unified(old, new, f"{name} (older)", f"{name} (newer)")
