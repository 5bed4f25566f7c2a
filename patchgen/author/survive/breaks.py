"""The definition of the parent that makes the difference between two releases.

A variant converts on one of them, and not on the other.  Files of the release on which it converts
are exchanged for those of the other, one at a time; then the definitions of the file that brings
the problem, and then the members of that class.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen.author.align.file import Definition, Member, read_file
from patchgen.author.survive.survey import Survey, on_release
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.project.files import Modular
from patchgen.project.outcome import Outcome, unified
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source, make_source

NO_PARENT = ("PG101", "PG103")
# The name of a definition, the file with it exchanged, and its text in both files.
_Part = tuple[str, str, tuple[str, str]]
_NOTHING = "", ""


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
        is_gone = self.converts == self.older
        what = "several files changed"
        if self.definition:
            is_absent = self.problem.startswith(NO_PARENT)
            what = f"is {'gone' if is_gone else 'new'}" if is_absent else "changed"
            what = f"{self.definition} {what}"
        return (
            f"{self.newer} broke it: {what}" if is_gone else f"converts since {self.newer}: {what}"
        )


def breaks_of(survey: Survey, modular: Modular) -> Iterator[Break]:
    """The breaks of a variant: one for each pair of neighbours with different answers."""
    outcomes = survey.outcomes[modular]
    for pair in itertools.pairwise(survey.releases):
        # First the one on which it converts.
        good, bad = sorted(pair, key=lambda release: bool(outcomes[release.version].problems))
        fits, fails = outcomes[good.version], outcomes[bad.version]
        if fits.problems or not fails.problems:
            continue
        here, there = (on_release(survey.project, one).environment() for one in (good, bad))
        settings, problem = survey.project.config.settings, fails.problems[0]
        definition, texts = _Finder(modular, settings, here, there, problem).find(fits)
        texts = texts if good is pair[0] else texts[::-1]
        heads = (f"{definition} (older)", f"{definition} (newer)")
        diff = unified(*texts, *heads) if any(texts) else ""
        what = f"{problem.code} {problem.what}"
        yield Break(pair[0].version, pair[1].version, good.version, what, definition, diff)


@dataclass(frozen=True)
class _Exchanged(Environment):
    """An environment in which one module has another text, or is not there."""

    module: str = ""
    text: str | None = None

    def look(self, question: str, subject: str) -> str:
        """As in `Environment`."""
        if self.text is None and (question, subject) == ("module", self.module):
            return ""
        return super().look(question, subject)

    def source(self, module: str, at: Location) -> Source:
        """As in `Environment`."""
        if module != self.module or self.text is None:
            return super().source(module, at)
        return make_source(self.text, f"{module.replace('.', '/')}.py", module)


@dataclass(frozen=True)
class _Finder:
    """Looks for what `there` has otherwise than `here`, where the variant converts."""

    modular: Modular
    settings: Settings
    here: Environment
    there: Environment
    problem: Problem

    @property
    def text(self) -> str:
        return f"{self.problem.what} {self.problem.hint}"

    def find(self, outcome: Outcome) -> tuple[str, tuple[str, str]]:
        """The definition that brings the problem, with its text in both; "" for no single file."""
        modules = [r.module for r in outcome.reads if r.module.startswith("transformers")]
        for module in sorted(modules, key=lambda m: (m not in self.text, ".models." not in m, m)):
            mine, other = _source(self.here, module), _source(self.there, module)
            if mine is None or (other is not None and other.text == mine.text):
                continue
            if self._brings(module, None if other is None else other.text):
                return self._narrow(mine, other)
        # What is not there is not read either.
        missing = next((m for m in self.text.split() if m.startswith("transformers.")), "")
        return missing if self.problem.code in NO_PARENT else "", _NOTHING

    def _brings(self, module: str, text: str | None) -> bool:
        """Whether the release gives the same problem with another text for one of its files."""
        env = self.here
        other = _Exchanged(
            env.roots, env.home, env.allow_bidi, env.archives, module=module, text=text
        )
        made = flatten(self.modular.path, other, self.settings)
        same = (self.problem.code, self.problem.at.path, self.problem.at.line)
        return any((p.code, p.at.path, p.at.line) == same for p in made.problems)

    def _narrow(self, mine: Source, other: Source | None) -> tuple[str, tuple[str, str]]:
        """The smallest definition of a module that brings the problem, and both its versions."""
        name, texts, owner = mine.module, _NOTHING, ""
        for _ in ("definition", "member") if other is not None else ():
            assert other is not None
            parts = sorted(_changed(mine, other, owner), key=lambda part: part[0] not in self.text)
            part = next((one for one in parts if self._brings(mine.module, one[1])), None)
            if part is None:
                break
            owner, _, texts = part
            name = f"{name}.{owner}"
        return name, texts


def _source(env: Environment, module: str) -> Source | None:
    try:
        return env.source(module, Location(module))
    except PatchgenError:
        return None


def _changed(here: Source, there: Source, owner: str) -> Iterator[_Part]:
    """The definitions that differ, or the members of the class `owner`; none for no Python."""
    try:
        (mine, end), (other, _) = _lines(here, owner), _lines(there, owner)
    except PatchgenError:
        return
    for name in dict.fromkeys([*mine, *other]):
        # What only the other file has goes behind the last.
        first, last = mine.get(name, (end + 1, end))
        texts = here.slice(first, last), there.slice(*other[name]) if name in other else ""
        if texts[0] != texts[1]:
            yield name, "".join([*here.lines[: first - 1], texts[1], *here.lines[last:]]), texts


def _lines(source: Source, owner: str) -> tuple[dict[str, tuple[int, int]], int]:
    """The lines of each definition or member, and the line on which they end."""
    file = read_file(source)
    found: Mapping[str, Definition | Member] = file.definitions
    end = len(source.lines)
    if owner:
        definition = file.definitions.get(owner)
        if definition is None or definition.kind != "class":
            return {}, 0
        found, end = definition.members, definition.node.end_lineno or 0
    spans = {n: (first_line(d.nodes[0]), d.nodes[-1].end_lineno or 0) for n, d in found.items()}
    return spans, end
