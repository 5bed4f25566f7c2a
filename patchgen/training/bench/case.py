"""One thing to be trained: model, texts, and who trains it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal

from patchgen.training.bench.entry import Entry

Task = Literal["causal", "masked", "classify"]
Metric = Literal["speed", "memory", "rows", "block", "rate"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows of `length` tokens.

    Each is one text of that length; with `shortest`, one of a length between both, and padding: drawn uniformly, one
    from each of as many equal ranges as there are rows; with `packed`, as many texts of a length between its two
    numbers as fill it, the last one cut.
    """

    rows: int
    length: int
    shortest: int | None = None
    packed: tuple[int, int] | None = None

    def texts(self, rows: int | None = None, seed: int = 0) -> tuple[int, ...]:
        """The lengths of all texts: the same for the same shape; fewer rows have the first of them."""
        draw, rows = random.Random(seed), rows or self.rows
        if self.shortest is not None:
            return tuple(self._spread(self.shortest, draw, max(rows, self.rows))[:rows])
        if self.packed is None:
            return (self.length,) * rows
        return tuple(text for _ in range(rows) for text in self._row(self.packed, draw))

    def _spread(self, shortest: int, draw: random.Random, rows: int) -> list[int]:
        ranges = list(range(rows))
        draw.shuffle(ranges)
        wide = (self.length - shortest + 1) / rows
        return [shortest + int((each + draw.random()) * wide) for each in ranges]

    def _row(self, packed: tuple[int, int], draw: random.Random) -> list[int]:
        texts = [draw.randint(*packed)]
        while (left := self.length - sum(texts)) > 0:
            texts.append(min(left, draw.randint(*packed)))
        return texts[:-1] + [self.length - sum(texts[:-1])]


@dataclass(frozen=True, slots=True)
class Target:
    """What is hoped for of one contestant (or the best of several) against another (or the best of several).

    speed   times the real tokens in a second, at least
    memory  times the peak, at most
    rows    times the rows that fit, at least
    block   times the speed of the case's block, at least
    rate    FLOP/s of work that the task needs, at least, against nobody
    """

    who: tuple[str, ...]
    against: tuple[str, ...]
    metric: Metric
    ratio: float


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the matrix.

    group    cases of one group run in one process: one model
    config   what differs from the configuration's defaults
    anchor   the contestant that others stand beside: its loss after some steps, what it keeps for backward
    block    a module that is timed by itself too
    seconds  what the whole case may take on a GPU; contestants at the end are left out where it has run out
    turns    for each turn the steps that warm up, and those that are timed
    fits     ask how many rows fit, in place of what a step costs
    dropout  the model's own dropout is on, as in training; numbers are compared without it
    batches  so many batches take turns, each padded to its own longest text
    """

    id: str
    group: str
    about: str
    model: str
    head: str
    config: tuple[tuple[str, Any], ...]
    shape: Shape
    task: Task
    entries: tuple[Entry, ...]
    targets: tuple[Target, ...] = ()
    baseline: str = "sdpa"
    block: str = ""
    seconds: float = 60.0
    turns: tuple[tuple[int, int], ...] = ((3, 7), (1, 3))
    fits: bool = False
    dropout: bool = False
    batches: int = 1

    def entry(self, name: str) -> Entry:
        """The contestant of that name; LookupError where there is none."""
        found = [one for one in self.entries if one.name == name]
        if not found:
            raise LookupError(f"{self.id} has no contestant {name!r}")
        return found[0]
