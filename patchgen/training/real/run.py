"""Runs a comparison in a process of its own: one that the system ends takes nothing along."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from patchgen.children import safe_workers
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.real.compare import CURVE, do_run
from patchgen.training.real.found import Found, RealRun
from patchgen.verifying.report import MISSING, Result, describe
from patchgen.verifying.run import Limits, answers_of
from patchgen.verifying.variants import Variant

Began = Callable[[str], None]  # what is done now
ENDED = "code -9"  # by the system, which says nothing of it


def plan_runs(
    variants: Sequence[Variant], dtypes: Sequence[Any], checkpoint: str, data: str, **more: Any
) -> list[Found]:
    """Return a place for what is found of each variant in each dtype; without one in float32.

    Raises PatchgenError PG917 for another dtype than those of `CURVE`.
    """
    dtypes = dtypes or ["float32"]
    for dtype in dtypes:
        if dtype not in CURVE:
            what = f"a checkpoint is compared in {' or '.join(CURVE)}"
            raise PatchgenError("PG917", Location(f"--dtype {dtype}"), what)
    asked = [(variant, checkpoint, data, dtype) for variant in variants for dtype in dtypes]
    return [Found(RealRun(*each, **more)) for each in asked]


def fill(every: Sequence[Found], began: Began = lambda what: None) -> PatchgenError | None:
    """Compare all, one after the other, and note what is found.

    Returns why one cannot go on, if so; what was found until then stays.
    """
    for found in every:
        found.results += describe(found.run.variant)
        try:
            with safe_workers():
                _fill(found, began)
        except PatchgenError as error:
            note = f"the comparison in {found.run.dtype} ended early: {error.problem.what}"
            found.results.append(Result(found.run.variant.name, MISSING, "NONE", note=note))
            return error
    return None


def _fill(found: Found, began: Began) -> None:
    at = "beginning"
    no_limits = Limits(math.inf, math.inf)
    for answer in answers_of(do_run, found.run, no_limits, threading.Event()):
        match answer:
            case {"begun": str(at)}:
                began(f"{found.title}: {at}")
            case {"about": about}:
                found.about = about
            case {"result": result}:
                found.results.append(result)
            case {"figures": figures}:
                for name, values in figures.items():
                    setattr(found, name, values)
            case {"refused": PatchgenError() as error}:
                raise error
            case {"fault": fault}:
                where = Location(found.run.checkpoint)
                if fault.endswith(ENDED):
                    what = f"the system ended the process ({at}), as it does where memory is short"
                    raise PatchgenError("PG816", where, what, "--steps 0, or a smaller --length")
                raise PatchgenError("PG917", where, f"{at} ended with an error: {fault}")
            case {"done": _}:
                return
