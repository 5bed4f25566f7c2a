"""Verify one variant of any project, for tools that verify many."""

from __future__ import annotations

import warnings
from pathlib import Path

from patchgen.verify.report.result import Result
from patchgen.verify.run.children import Limits, Wanted, verify
from patchgen.verify.selection import Plan
from patchgen.verify.variants import find_variant_at

SHORT = Plan(short=True)


def verify_variant(
    path: Path,
    plan: Plan = SHORT,
    *,
    device: str = "cpu",
    limits: Limits | None = None,
    here: bool = False,
) -> tuple[Result, ...]:
    """The result of each case of `plan` for the variant of a modular file or an output at `path`.

    The variant need not be in a gallery.  Its parent and its parts are read from the record in its
    project's lock, so it must have been converted.

    If a short plan gives no FAIL and no WARN, and a PASS with `seen` for the numbers, then a tiny
    model with random weights

    - loads the parent's checkpoint with no key missing or unexpected, and writes it back
      bit for bit;
    - ran what its parts are for (a part that does nothing is a FAIL);
    - gives the parent's outputs, loss and gradient of every parameter in training, in float64 and
      float32, with full rows and with rows padded at either side, within bounds at least ten times
      smaller than
    - the errors of its parts that fit this model.  Each of them is planted in it and seen.

    This does not cover other heads, eval mode, dropout, narrow dtypes, caches, generation or
    compilation.  `NONE` proves nothing: if a model cannot be built, all its results are `NONE`.

    The cases run in a child process within `limits` (60 s and 3 GB a case).  With `here` they run
    in this process without limits; projects' packages of the same name then replace each other in
    `sys.modules`, so verify one project at a time.

    Raises LookupError if no record has the file.
    """
    variant = find_variant_at(path)
    if not here:
        return verify([variant], Wanted(plan, device, limits or Limits()), jobs=1)
    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.cases.select import select_cases
    from patchgen.verify.parts.combine import find_part_checks

    try:
        todo = select_cases(variant, find_part_checks(variant.checked_parts), plan)
    except LookupError as error:  # as in a child
        return (Result(variant.name, "all", "FAIL", note=str(error)),)
    bench = CaseRunner(variant, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(bench.run(case) for case in todo)
