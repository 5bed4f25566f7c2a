"""The report of a survey, as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from patchgen.author.adopt.releases import order_of
from patchgen.author.survive.breaks import Break, breaks_of
from patchgen.author.survive.survey import (
    CONVERTS,
    State,
    Survey,
    digests_of,
    states_of,
)
from patchgen.project.files import Modular
from patchgen.project.outcome import Outcome

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
    versions = sorted((r.version for r in survey.wanted.releases), key=order_of)
    rows = []
    for modular, outcomes in survey.outcomes.items():
        there = on_disk.get(modular.display_path)
        fitting = [v for v, o in outcomes.items() if not o.problems and digests_of(o) == there]
        breaks = tuple(breaks_of(survey, modular))
        rows.append(Row(modular, states_of(outcomes, versions), outcomes, breaks, tuple(fitting)))
    return tuple(rows)


def text_of(rows: tuple[Row, ...], survey: Survey) -> str:
    """The report as text."""
    lines = [line for row in rows for line in _lines_of(row)]
    lines += [f"{version} cannot be read: {why}" for version, why in survey.unreadable.items()]
    absent = (*survey.wanted.missing, *survey.wanted.ends)
    lines += [f"{name} is not here: --download lets pip fetch it" for name in absent]
    whole = sum(row.survives for row in rows)
    releases = len(survey.wanted.releases)
    lines.append(f"{whole} of {len(rows)} variants convert on all of {releases} releases")
    return "\n".join(lines) + "\n"


def _lines_of(row: Row) -> Iterator[str]:
    good: list[str] = []
    bad: list[str] = []
    plain = {v: State.SAME if one in CONVERTS else one for v, one in row.states.items()}
    # Neighbouring releases of one state stand together.
    for state, group in itertools.groupby(plain, key=lambda version: plain[version]):
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
    for one in row.breaks:
        yield f"  {one.text}"
        lines = one.diff.rstrip("\n").split("\n")[2:]
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
        version: [
            {"code": p.code, "line": p.at.line, "path": p.at.path, "what": p.what, "hint": p.hint}
            for p in outcome.problems
        ]
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
        "breaks": [asdict(one) for one in row.breaks],
    }
