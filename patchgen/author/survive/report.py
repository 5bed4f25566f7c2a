"""The report of a survey: which variant converts where, and which definition broke it.

That is the one that the problem names, where only one of two neighbouring releases has it so.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from patchgen.author.adopt.releases import order_of
from patchgen.author.align.file import Definition, Member, read_file
from patchgen.author.survive.survey import (
    CONVERTS,
    State,
    Survey,
    digests_of,
    on_release,
    states_of,
)
from patchgen.project.files import Modular
from patchgen.project.lock import shorten
from patchgen.project.outcome import Outcome, unified
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment

NO_PARENT = ("PG101", "PG103")


@dataclass(frozen=True)
class Break:
    """Two neighbouring releases, of which only `converts` has what the variant needs.

    `definition` is the one that makes the difference, or the file; empty where the problem names
    none. `diff` is from the older to the newer one.
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
        head = f"{self.newer} broke it" if is_gone else f"converts since {self.newer}"
        return f"{head}: {what}"


def breaks_of(survey: Survey, modular: Modular) -> Iterator[Break]:
    """The breaks of a variant: one for each pair of neighbours with different answers."""
    outcomes = survey.outcomes[modular]
    for pair in itertools.pairwise(survey.releases):
        # First the one on which it converts.
        good, bad = sorted(pair, key=lambda release: bool(outcomes[release.version].problems))
        fits = outcomes[good.version]
        fails = outcomes[bad.version]
        if fits.problems or not fails.problems:
            continue
        problem = fails.problems[0]
        sides = [on_release(survey.project, release).environment() for release in (good, bad)]
        definition, texts = _changed_definition(problem, fits, sides)
        older, newer = pair
        if good is newer:
            texts = texts[::-1]
        heads = (f"{definition} (older)", f"{definition} (newer)")
        diff = ""
        if any(texts):
            diff = unified(*texts, *heads)
        what = f"{problem.code} {problem.what}"
        yield Break(older.version, newer.version, good.version, what, definition, diff)


def _changed_definition(
    problem: Problem, fits: Outcome, sides: Sequence[Environment]
) -> tuple[str, tuple[str, str]]:
    """What the problem names and only one release has, or has otherwise, and its text in both.

    "" where the problem names no such definition.
    """
    text = f"{problem.what} {problem.hint}"
    words = {*re.findall(r"\w+", text)}
    modules = [r.module for r in fits.reads if r.module.startswith("transformers")]
    for module in sorted(modules, key=lambda m: (m not in text, ".models." not in m, m)):
        here, there = (_parts(side, module) for side in sides)
        if here is None or there is None:
            if here is not there and module in text.split():
                return module, ("", "")
            continue
        named = []
        for name in here | there:
            differs = here.get(name) != there.get(name)
            if differs and words.issuperset(name.split(".")):
                named.append(name)
        if named:
            name = max(named, key=lambda candidate: candidate.count("."))
            return f"{module}.{name}", (here.get(name, ""), there.get(name, ""))
    # What is not there is not read either.
    missing = ""
    if problem.code in NO_PARENT:
        missing = next((word for word in text.split() if word.startswith("transformers.")), "")
    return missing, ("", "")


def _parts(environment: Environment, module: str) -> dict[str, str] | None:
    """The definitions of a module and the members of its classes, as text; None without it."""
    try:
        file = read_file(environment.source(module, Location(module)))
    except PatchgenError:
        return None
    parts: dict[str, Definition | Member] = dict(file.definitions)
    for name in file.classes:
        for member, code in file.definitions[name].members.items():
            parts[f"{name}.{member}"] = code
    texts = {}
    for name, part in parts.items():
        texts[name] = file.source.slice(first_line(part.nodes[0]), part.nodes[-1].end_lineno or 0)
    return texts


_DIFF_LINES = 16  # of a definition's diff; JSON has all of it


@dataclass(frozen=True)
class Row:
    """One variant: its state on each release, and what broke it.

    `fitting` are the releases that give the outputs on disk.
    """

    modular: Modular
    states: Mapping[str, State]
    outcomes: Mapping[str, Outcome]
    breaks: tuple[Break, ...]
    fitting: tuple[str, ...]

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.modular.path.stem.removeprefix("modular_")

    @property
    def survives(self) -> bool:
        """Whether it converts on every release."""
        return all(state in CONVERTS for state in self.states.values())


def rows_of(survey: Survey, on_disk: Mapping[str, Mapping[str, str]]) -> tuple[Row, ...]:
    """The rows of the table; `on_disk` are the digests of the outputs that are recorded."""
    versions = sorted((release.version for release in survey.wanted.releases), key=order_of)
    rows: list[Row] = []
    for modular, outcomes in survey.outcomes.items():
        recorded = on_disk.get(modular.display_path)
        fitting: list[str] = []
        for version, outcome in outcomes.items():
            made = {name: shorten(digest) for name, digest in digests_of(outcome).items()}
            if not outcome.problems and made == recorded:
                fitting.append(version)
        row = Row(
            modular=modular,
            states=states_of(outcomes, versions),
            outcomes=outcomes,
            breaks=tuple(breaks_of(survey, modular)),
            fitting=tuple(fitting),
        )
        rows.append(row)
    return tuple(rows)


def text_of(rows: tuple[Row, ...], survey: Survey) -> str:
    """The report as text."""
    lines: list[str] = []
    for row in rows:
        lines += _lines_of(row)
    for version, why in survey.unreadable.items():
        lines.append(f"{version} cannot be read: {why}")
    for name in (*survey.wanted.missing, *survey.wanted.ends):
        lines.append(f"{name} is not here: --download lets pip fetch it")
    whole = sum(row.survives for row in rows)
    releases = len(survey.wanted.releases)
    lines.append(f"{whole} of {len(rows)} variants convert on all of {releases} releases")
    return "\n".join(lines) + "\n"


def _lines_of(row: Row) -> Iterator[str]:
    good: list[str] = []
    bad: list[str] = []

    def converts_or_state(version: str) -> State:
        state = row.states[version]
        return State.SAME if state in CONVERTS else state

    # Neighbouring releases of one state stand together.
    for state, group in itertools.groupby(row.states, key=converts_or_state):
        versions = [*group]
        span = " to ".join(dict.fromkeys((versions[0], versions[-1])))
        if state is State.SAME:
            good.append(span)
            continue
        bad.append(f"  {span}: {state}")
        # The last release of the span speaks for all of it.
        outcome = row.outcomes.get(versions[-1])
        problems = outcome.problems if outcome else ()
        bad += [f"    {problem.at}: {problem.code} {problem.what}" for problem in problems]
    changed = [version for version, state in row.states.items() if state is State.CHANGED]
    more = f"; its output changed in {', '.join(changed)}" if changed else ""
    yield f"{row.name}: converts on {', '.join(good) or 'none'}{more}"
    yield from bad
    for change in row.breaks:
        yield f"  {change.text}"
        lines = change.diff.rstrip("\n").split("\n")[2:]
        yield from (f"    {line}" for line in lines[:_DIFF_LINES])
        if len(lines) > _DIFF_LINES:
            yield f"    ... {len(lines) - _DIFF_LINES} more lines"


def data_of(rows: tuple[Row, ...], survey: Survey) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "releases": [release.version for release in survey.releases],
        "unreadable": dict(survey.unreadable),
        "missing": [*survey.wanted.missing, *survey.wanted.ends],
        "variants": [_data_of(row) for row in rows],
    }


def _data_of(row: Row) -> dict[str, Any]:
    problems = {
        version: [problem.data() for problem in outcome.problems]
        for version, outcome in row.outcomes.items()
        if outcome.problems
    }
    return {
        "variant": row.name,
        "modular": row.modular.display_path,
        "survives": row.survives,
        "states": {version: str(state) for version, state in row.states.items()},
        "outputs": {version: digests_of(outcome) for version, outcome in row.outcomes.items()},
        "fits_outputs_on_disk": list(row.fitting),
        "problems": problems,
        "breaks": [asdict(change) for change in row.breaks],
    }
