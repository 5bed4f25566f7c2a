"""Try every variant on every release, and save each result at once."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchgen.author.adopt.releases import Release
from patchgen.author.survive.book import Book
from patchgen.author.survive.files import open_release
from patchgen.author.survive.trial import Trial, try_on
from patchgen.author.survive.view import View, make_view
from patchgen.compiler.settings import Settings
from patchgen.project.files import Modular
from patchgen.project.outcome import digest_of
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.locate import Environment
from patchgen.syntax.regular import read_regular

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Survey:
    """The trials by variant and release; `unreadable` says why a release has none.

    `releases` are sorted by age, and hold those that could be read.
    """

    releases: tuple[Release, ...]
    trials: Mapping[Modular, Mapping[str, Trial]]
    unreadable: Mapping[str, str]
    counts: Mapping[str, int]


@dataclass
class Surveyor:
    """Tries variants on releases; `own` finds the project's modules and the installed packages."""

    own: Environment
    settings: Settings
    book: Book
    parsed: dict[tuple[str, str], ModuleIndex] = field(default_factory=dict)
    made: int = 0
    reused: int = 0

    def view(self, release: Release) -> View:
        """The view of a release; raises OSError and zipfile.BadZipFile."""
        return make_view(open_release(release), self.own, self.parsed)

    def trial(self, modular: Modular, view: View) -> Trial:
        """A variant on a release: what is known of it, else tried and kept."""
        variant = digest_of_variant(modular)
        known = self.book.find(variant, view)
        if known is not None:
            self.reused += 1
            return known
        self.made += 1
        trial = try_on(modular, view, self.settings)
        self.book.add(variant, view, trial)
        return trial

    def run(
        self, modulars: Sequence[Modular], releases: Sequence[Release], progress: Progress
    ) -> Survey:
        """Try each variant on each release."""
        trials: dict[Modular, dict[str, Trial]] = {modular: {} for modular in modulars}
        unreadable: dict[str, str] = {}
        for release in releases:
            try:
                for modular, trial in self._on(release, modulars):
                    trials[modular][release.version] = trial
                    progress(1)
            except (OSError, zipfile.BadZipFile) as error:
                unreadable[release.version] = str(error)
        counts = {"made": self.made, "reused": self.reused}
        read = tuple(one for one in releases if one.version not in unreadable)
        return Survey(read, trials, unreadable, counts)

    def _on(self, release: Release, modulars: Sequence[Modular]) -> Iterator[tuple[Modular, Trial]]:
        view = self.view(release)
        for modular in modulars:
            yield modular, self.trial(modular, view)


def digest_of_variant(modular: Modular) -> str:
    """The sha256 of a variant's text and path."""
    data = read_regular(modular.path)
    return digest_of(f"{modular.display_path}\0{modular.folder.name}\0{data.hex()}")
