"""Keeps the rows of a step when a run is resumed on another number of processes.

Each process takes more or fewer rows, so the gradient and the number of steps stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.recipe import Recipe
from patchgen.training.parallel.engine import Engine

ROWS = "rows_of_a_step"  # a key of run.json


def rows_per_step(recipe: Recipe, batch: int, engine: Engine) -> int:
    """Return the rows of one step, over all processes."""
    return batch * recipe.grad_accum * engine.data_groups


def scale_batch(recipe: Recipe, found: Mapping[str, Any], engine: Engine) -> Recipe:
    """Return the recipe with the batch size and accumulation that give the same rows per step.

    A new run gets its recipe back.  Raises PatchgenError PG838 where the rows cannot be divided
    evenly.
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
