"""How many rows does each process take, when a run is gone on with by more or fewer processes than began it?

A step takes the rows that it took: its gradient and the number of steps stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchgen.errors import Location, PatchgenError
from patchgen.training.loop.recipe import Recipe
from patchgen.training.parallel.engine import Engine

ROWS = "rows_of_a_step"  # in what a run has found


def rows_per_step(recipe: Recipe, batch: int, engine: Engine) -> int:
    """Of all processes together."""
    return batch * recipe.grad_accum * engine.data_groups


def scale_batch(recipe: Recipe, found: Mapping[str, Any], engine: Engine) -> Recipe:
    """The recipe with the rows of a process and the batches of a step that make the same step.

    As it is where nothing was found yet.  Raises PatchgenError PG838 where the rows do not come out even.
    """
    if ROWS not in found:
        return recipe
    rows, batch = int(found[ROWS]), int(found["batch_size"])
    if rows % engine.data_groups:
        what = f"a step takes {rows} rows, which {engine.data_groups} processes cannot share evenly"
        raise PatchgenError(
            "PG838", Location(f"--engine {engine.name}"), what, f"a number that divides {rows}"
        )
    own = rows // engine.data_groups
    size = max(number for number in range(1, min(batch, own) + 1) if own % number == 0)
    return replace(recipe, batch_size=str(size), grad_accum=own // size)
