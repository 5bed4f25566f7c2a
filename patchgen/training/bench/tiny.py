"""Cases so small that a CPU runs all of them in a minute: to be checked, never to be timed."""

from __future__ import annotations

from dataclasses import replace

from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.entry import Entry

ROWS = 2


def tiny_case(case: Case) -> Case:
    """The case with rows of 32 tokens.  Its model is made tiny by `stage`; who wants other rows gets other few."""
    entries = tuple(_tiny(one, case.shape.rows) for one in case.entries)
    return replace(case, shape=_shape(case.shape), entries=entries, batches=min(ROWS, case.batches))


def _shape(shape: Shape) -> Shape:
    shortest = None if shape.shortest is None else 8
    return Shape(ROWS, 32, shortest, None if shape.packed is None else (6, 20))


def _tiny(entry: Entry, rows: int) -> Entry:
    fewer = replace(entry, accumulate=min(ROWS, entry.accumulate))
    if entry.rows is None:
        return fewer
    return replace(fewer, rows=1 if entry.rows < rows else 2 * ROWS)
