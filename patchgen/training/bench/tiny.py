"""Small versions of cases, which a CPU checks in a minute without timing them."""

from __future__ import annotations

from dataclasses import replace

from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.entry import Entry

ROWS = 2


def tiny_case(case: Case) -> Case:
    """Return the case with rows of 32 tokens; `setup` makes its model tiny."""
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
