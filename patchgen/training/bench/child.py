"""A process that runs the cases of one group, and says what it finds on its stdout: a line of JSON each.

On stdin: the `Work`.  Before whatever may take long it says what it begins and how long it may take; whoever listens
(`patchgen.training.bench.run`) ends it where it takes longer, and starts another for what is left.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Work:
    """What one child is to do: cases of a table by their ids, without contestants that ended a child before.

    `seconds` are what is left of the whole run; each case may take `times` its own.
    """

    table: str
    cases: tuple[str, ...]
    only: tuple[str, ...]
    device: str
    tiny: bool
    seconds: float
    times: float = 1.0
    skip: tuple[tuple[str, str], ...] = ()

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def parse_work(text: str) -> Work:
    """The inverse of `Work.as_text`."""
    told = json.loads(text)
    told |= {
        "cases": tuple(told["cases"]),
        "only": tuple(told["only"]),
        "skip": tuple(map(tuple, told["skip"])),
    }
    return Work(**told)


def main() -> None:
    """Do the work on stdin."""
    began = time.monotonic()
    # What models and kernels print must not get between the lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    work = parse_work(sys.stdin.read())
    # Contestants leave the allocator blocks of other sizes: without this a large case runs out by fragments.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    # What torch itself sets where CUDA graphs and the profiler share a process.
    os.environ.update({"DISABLE_CUPTI_LAZY_REINIT": "1", "TEARDOWN_CUPTI": "0"})

    def say(**told: Any) -> None:
        print(json.dumps(told), file=answers, flush=True)

    from patchgen.training.bench.machine import machine, versions
    from patchgen.training.bench.run_case import Budget, run_case
    from patchgen.training.bench.sets import cases_of
    from patchgen.training.silence import silence_process

    silence_process()
    budget = Budget(began + work.seconds, work.times)
    say(machine=machine(work.device), versions=versions())
    for case in cases_of(work.table, work.cases, work.only, tiny=work.tiny):
        skip = {name for place, name in work.skip if place == case.id}
        run_case(case, work.device, work.tiny, skip, budget, say)
    say(done=True)


if __name__ == "__main__":
    main()
