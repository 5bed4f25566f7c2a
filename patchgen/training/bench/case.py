"""One training task: model, texts, and the entries that train it."""

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

    By default each row is one text of that length.  With `shortest`, texts have lengths between
    both, and padding: one length is drawn from each of as many equal ranges as there are rows.
    With `packed`, texts with a length between its two numbers fill each row; the last text is cut.
    """

    rows: int
    length: int
    shortest: int | None = None
    packed: tuple[int, int] | None = None

    def texts(self, rows: int | None = None, seed: int = 0) -> tuple[int, ...]:
        """Return the lengths of all texts, the same for the same shape; fewer rows have the first
        ones.
        """
        draw, rows = random.Random(seed), rows or self.rows
        if self.shortest is not None:
            return tuple(self._draw_lengths(self.shortest, draw, max(rows, self.rows))[:rows])
        if self.packed is None:
            return (self.length,) * rows
        return tuple(text for _ in range(rows) for text in self._row(self.packed, draw))

    def _draw_lengths(self, shortest: int, draw: random.Random, rows: int) -> list[int]:
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
    """The expected gain of an entry (or the best of several) over another (or the best of several).

    speed   real tokens per second, at least this many times
    memory  the peak, at most this many times
    rows    the rows that fit, at least this many times
    block   the speed of the case's block, at least this many times
    rate    the FLOP/s that the task needs, at least; compared with no entry
    """

    who: tuple[str, ...]
    against: tuple[str, ...]
    metric: Metric
    ratio: float


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the matrix.

    group     cases of one group run in one process
    config    values of the configuration that differ from its defaults
    baseline  the entry that others are compared with, by losses and saved activations
    block     a module that is also timed by itself
    seconds   the time of the case on a GPU; the last entries are skipped when it is used up
    rounds    the steps of each round: to warm up, and to be timed
    fits      find how many rows fit, instead of timing steps
    dropout   train with the model's own dropout; numbers are compared without it
    batches   this many batches take turns, each padded to its own longest text
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
    rounds: tuple[tuple[int, int], ...] = ((3, 7), (1, 3))
    fits: bool = False
    dropout: bool = False
    batches: int = 1

    def entry(self, name: str) -> Entry:
        """Return the entry of that name; raise LookupError where there is none."""
        found = [one for one in self.entries if one.name == name]
        if not found:
            raise LookupError(f"{self.id} has no entry {name!r}")
        return found[0]
