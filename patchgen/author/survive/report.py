"""The report of a survey, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from patchgen.author.adopt.releases import order_of
from patchgen.author.survive.breaks import Break
from patchgen.author.survive.states import CONVERTS, Span, State, spans_of, states_of
from patchgen.author.survive.survey import Survey
from patchgen.author.survive.trial import Trial
from patchgen.project.files import Modular

_DIFF_LINES = 16  # of a definition's diff; JSON has all of it


@dataclass(frozen=True)
class Row:
    """One variant: its state on each release, and what broke it.

    `fitting` are the releases that give the outputs on disk.
    """

    modular: Modular
    states: Mapping[str, State]
    trials: Mapping[str, Trial]
    breaks: tuple[Break, ...]
    fitting: tuple[str, ...]

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.modular.path.stem.removeprefix("modular_")

    @property
    def spans(self) -> tuple[Span, ...]:
        """Neighbouring releases of one state together."""
        return tuple(spans_of(self.states))

    @property
    def survives(self) -> bool:
        """Whether it converts on every release."""
        return all(state in CONVERTS for state in self.states.values())


def rows_of(
    survey: Survey,
    breaks: Mapping[Modular, tuple[Break, ...]],
    on_disk: Mapping[str, Mapping[str, str]],
) -> tuple[Row, ...]:
    """The rows of the table; `on_disk` are the digests of the outputs that are recorded."""
    versions = [release.version for release in survey.releases]
    versions = sorted([*versions, *survey.unreadable], key=order_of)
    rows = []
    for modular, trials in survey.trials.items():
        fitting = tuple(
            version
            for version, trial in trials.items()
            if trial.converts and trial.outputs == on_disk.get(modular.display_path)
        )
        states = states_of(trials, versions)
        rows.append(Row(modular, states, trials, breaks.get(modular, ()), fitting))
    return tuple(rows)


def text_of(rows: tuple[Row, ...], survey: Survey) -> str:
    """The report as text."""
    lines = [line for row in rows for line in _lines_of(row)]
    lines += [f"{version} cannot be read: {why}" for version, why in survey.unreadable.items()]
    lines.append(summary(rows, survey))
    return "\n".join(lines) + "\n"


def summary(rows: tuple[Row, ...], survey: Survey) -> str:
    """The number of variants that convert everywhere, and the time that it took."""
    whole = sum(row.survives for row in rows)
    releases = len(survey.releases) + len(survey.unreadable)
    work = f"{survey.counts['made']} conversions, {survey.counts['reused']} results known before"
    return f"{whole} of {len(rows)} variants convert on all of {releases} releases ({work})"


def _lines_of(row: Row) -> Iterator[str]:
    good = [span for span in row.spans if span.state in CONVERTS]
    where = ", ".join(span.text for span in good)
    changed = ", ".join(version for span in good for version in span.changed)
    sentence = f"converts on {where or 'none'}"
    if changed:
        sentence += f"; its output changed in {changed}"
    yield f"{row.name}: {sentence}"
    for span in row.spans:
        if span.state in CONVERTS:
            continue
        yield f"  {span.text}: {span.state}"
        # The last release of the span speaks for all of it.
        trial = row.trials.get(span.last)
        for problem in trial.problems if trial else ():
            yield f"    {problem.at}: {problem.code} {problem.what}"
    for one in row.breaks:
        yield f"  {one.text}"
        yield from (f"    {line}" for line in shortened(one.diff))


def shortened(diff: str) -> list[str]:
    """The first lines of a diff, without its head."""
    lines = diff.rstrip("\n").split("\n")[2:]
    if len(lines) <= _DIFF_LINES:
        return lines
    return [*lines[:_DIFF_LINES], f"... {len(lines) - _DIFF_LINES} more lines"]


def data_of(rows: tuple[Row, ...], survey: Survey) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "releases": [release.version for release in survey.releases],
        "unreadable": dict(survey.unreadable),
        "conversions": dict(survey.counts),
        "variants": [_data_of(row) for row in rows],
    }


def _data_of(row: Row) -> dict[str, Any]:
    problems = {
        version: [
            {"code": p.code, "line": p.at.line, "path": p.at.path, "what": p.what, "hint": p.hint}
            for p in trial.problems
        ]
        for version, trial in row.trials.items()
        if trial.problems
    }
    return {
        "variant": row.name,
        "modular": row.modular.display_path,
        "survives": row.survives,
        "states": {version: str(state) for version, state in row.states.items()},
        "outputs": {version: dict(trial.outputs) for version, trial in row.trials.items()},
        "fits_outputs_on_disk": list(row.fitting),
        "problems": problems,
        "breaks": [asdict(one) for one in row.breaks],
    }
