"""What became of the errors planted in a variant, and which of its changed lines ran: values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["seen", "unseen", "no difference", "crashed"]
OUTCOMES: tuple[Outcome, ...] = ("seen", "unseen", "no difference", "crashed")


@dataclass(frozen=True, slots=True)
class MutantResult:
    """One mutant.

    seen: a case compared unequal.  unseen: none did, and some ran other operations.  no difference:
    all cases that run its line, in every dtype, ran the same operations on the same data.  crashed:
    it raises an exception somewhere, and no case sees it before; neither seen nor unseen.
    """

    place: str  # "modeling_llama_loss.py:233"
    function: str
    says: str
    diff: str
    outcome: Outcome
    note: str = ""  # the case that saw it, or why it failed
    cases: int = 0  # how many it was run in
    digest: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:  # of a report that an earlier patchgen wrote
            raise ValueError(f"{self.outcome} is no outcome")

    @property
    def name(self) -> str:
        """Of no other mutant of the variant."""
        return f"mutant {self.place} {self.says} {self.digest[:12]}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LinesRun:
    """Which of the added and changed lines of a variant ran in some case."""

    file: str
    changed: int  # lines at which something can run
    ran: int
    not_run: tuple[tuple[int, str], ...]  # number and text
    refusals: tuple[tuple[int, str], ...] = ()  # that did not run and only refuse what is given
    mutants: int = 0  # possible mutants of lines that ran
    unplanted: int = 0  # that can be made of lines that did not run: none of them is planted

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def lines_from_json(fields: Mapping[str, Any]) -> LinesRun:
    """The inverse of `LinesRun.as_json`."""
    texts = {name: tuple(map(tuple, fields[name])) for name in ("not_run", "refusals")}
    return LinesRun(**{**fields, **texts})


def counted(fates: Iterable[MutantResult]) -> Mapping[Outcome, int]:
    """The number of mutants with each outcome."""
    found = Counter(fate.outcome for fate in fates)
    return {outcome: found[outcome] for outcome in OUTCOMES}


def format_counts(fates: Iterable[MutantResult], lines: LinesRun | None = None) -> str:
    """How many of the mutants were seen, in words.

    "23 of 24 mutants seen, 2 more made no difference, 1 more crashed, 31 on lines that did not
    run".
    """
    found = counted(fates)
    decided = found["seen"] + found["unseen"]
    text = f"{found['seen']} of {decided} mutants seen"
    quiet, crashed = found["no difference"], found["crashed"]
    text += f", {quiet} more made no difference" if quiet else ""
    text += f", {crashed} more crashed" if crashed else ""
    if lines is None or not (lines.mutants or lines.unplanted):
        return text
    text += f", {lines.unplanted} on lines that did not run" if lines.unplanted else ""
    return f"{text} ({sum(found.values())} planted of {lines.mutants} on lines that ran)"
