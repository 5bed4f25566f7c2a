"""The definition of the parent that makes the difference between two releases.

A variant converts on one of them, and not on the other.  Files of the release on which it converts
are exchanged for those of the other, one at a time; then the definitions of the file that brings
the problem, and then the members of that class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.align.file import read_file
from patchgen.author.survive.survey import Survey, on_release
from patchgen.compiler.flatten import flatten
from patchgen.project.files import Modular, Project
from patchgen.project.outcome import Outcome, unified
from patchgen.syntax.blocks import ModuleIndex, first_line, index
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source, make_source

NO_PARENT = ("PG101", "PG103")
_Nodes = Mapping[str, Sequence[ast.stmt]]


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
        elif self.problem.startswith(NO_PARENT):
            what = f"{self.definition} is {'gone' if self.converts == self.older else 'new'}"
        else:
            what = f"{self.definition} changed"
        if self.converts == self.older:
            return f"{self.newer} broke it: {what}"
        return f"converts since {self.newer}: {what}"


def breaks_of(survey: Survey, modular: Modular) -> Iterator[Break]:
    """The breaks of a variant: one for each pair of neighbours with different answers."""
    outcomes = survey.outcomes[modular]
    for pair in zip(survey.releases, survey.releases[1:], strict=False):
        older, newer = (outcomes[release.version] for release in pair)
        if bool(older.problems) == bool(newer.problems):
            continue
        fits, fails = (older, newer) if newer.problems else (newer, older)
        projects = [on_release(survey.project, release) for release in pair]
        if fits is newer:
            projects.reverse()
        finder = _Finder(modular, projects[0], projects[0].environment(), projects[1].environment())
        problem = fails.problems[0]
        definition, texts = finder.find(fits, problem)
        if fits is newer:
            texts = texts[1], texts[0]
        versions = [release.version for release in pair]
        heads = (f"{definition} (older)", f"{definition} (newer)")
        diff = unified(*texts, *heads) if any(texts) else ""
        converts = versions[0] if fits is older else versions[1]
        what = f"{problem.code} {problem.what}"
        yield Break(versions[0], versions[1], converts, what, definition, diff)


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

    def index(self, module: str, at: Location) -> ModuleIndex:
        """As in `Environment`."""
        return (
            index(self.source(module, at)) if module == self.module else super().index(module, at)
        )


@dataclass(frozen=True)
class _Finder:
    """Looks for what `there` has otherwise than `here`, where the variant converts."""

    modular: Modular
    project: Project
    here: Environment
    there: Environment

    def find(self, outcome: Outcome, problem: Problem) -> tuple[str, tuple[str, str]]:
        """The definition that brings the problem, with its text in both; "" for no single file."""
        text = f"{problem.what} {problem.hint}"
        modules = [r.module for r in outcome.reads if r.module.startswith("transformers")]
        for module in sorted(modules, key=lambda m: (m not in text, ".models." not in m, m)):
            mine, other = _source(self.here, module), _source(self.there, module)
            if mine is None or (other is not None and other.text == mine.text):
                continue
            if self._brings(module, None if other is None else other.text, problem):
                return self._narrow(module, mine, other, problem)
        # What is not there is not read either.
        missing = next((m for m in text.split() if m.startswith("transformers.")), "")
        return missing if problem.code in NO_PARENT else "", ("", "")

    def _brings(self, module: str, text: str | None, problem: Problem) -> bool:
        """Whether the release gives the same problem with another text for one of its files."""
        env = self.here
        other = _Exchanged(
            env.roots, env.home, env.allow_bidi, env.archives, module=module, text=text
        )
        made = flatten(self.modular.path, other, self.project.config.settings)
        same = (problem.code, problem.at.path, problem.at.line)
        return any((p.code, p.at.path, p.at.line) == same for p in made.problems)

    def _narrow(
        self, module: str, mine: Source, other: Source | None, problem: Problem
    ) -> tuple[str, tuple[str, str]]:
        """The smallest definition of a module that brings the problem, and both its versions."""
        name, best = module, ("", "")
        owner = ""
        while other is not None:
            part = self._first(module, changed_parts(mine, other, owner), mine, problem)
            if part is None:
                break
            name, best = f"{name}.{part.name}", (part.here, part.there)
            if owner:
                break
            owner = part.name
        return name, best

    def _first(
        self, module: str, parts: Iterable[Part], mine: Source, problem: Problem
    ) -> Part | None:
        text = f"{problem.what} {problem.hint}"
        for part in sorted(parts, key=lambda part: part.name not in text):
            if self._brings(module, part.exchanged(mine), problem):
                return part
        return None


def _source(env: Environment, module: str) -> Source | None:
    try:
        return env.source(module, Location(module))
    except PatchgenError:
        return None


# The definitions by which two versions of a file differ


@dataclass(frozen=True)
class Part:
    """A definition in two versions; empty where a file has none.

    `first` and `last` are its lines in the one file; a definition that only the other file has
    would go behind line `last`.
    """

    name: str
    first: int
    last: int
    here: str
    there: str

    def exchanged(self, source: Source) -> str:
        """The text of `source`, the one file, with this definition as the other file has it."""
        lines = [*source.lines]
        lines[self.first - 1 : self.last] = [self.there]
        return "".join(lines)


def changed_parts(here: Source, there: Source, owner: str = "") -> list[Part]:
    """The definitions that differ, or the members of the class `owner`; none for no Python."""
    try:
        mine, end = _nodes_of(here, owner)
        other, _ = _nodes_of(there, owner)
    except PatchgenError:
        return []
    parts = []
    for name in dict.fromkeys([*mine, *other]):
        first, last = _lines(mine[name]) if name in mine else (end + 1, end)
        texts = here.slice(first, last), there.slice(*_lines(other[name])) if name in other else ""
        if texts[0] != texts[1]:
            parts.append(Part(name, first, last, *texts))
    return parts


def _nodes_of(source: Source, owner: str) -> tuple[_Nodes, int]:
    """The statements of each definition or member, and the line on which they end."""
    file = read_file(make_source(source.text, source.path, source.module))
    if not owner:
        return {name: one.nodes for name, one in file.definitions.items()}, len(source.lines)
    definition = file.definitions.get(owner)
    if definition is None or not isinstance(definition.node, ast.ClassDef):
        return {}, 0
    members = {name: one.nodes for name, one in definition.members.items()}
    return members, definition.node.end_lineno or 0


def _lines(nodes: Sequence[ast.stmt]) -> tuple[int, int]:
    return first_line(nodes[0]), nodes[-1].end_lineno or 0
