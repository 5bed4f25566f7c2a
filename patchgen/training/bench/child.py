"""A process that runs the cases of one group, and prints each finding as a line of JSON.

It reads its `Work` from stdin.  Before anything that may take long, it prints what starts and how
long that may take.  Its parent (`patchgen.training.bench.run`) ends it where it takes longer, and
starts another process for the rest.
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
    """What one child does: cases of a table by their ids, without entries that ended a child
    before.

    `seconds` is the time left for the whole run; each case may take `times` its own time.
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
    """Return the work that `Work.as_text` wrote."""
    fields = json.loads(text)
    fields |= {
        "cases": tuple(fields["cases"]),
        "only": tuple(fields["only"]),
        "skip": tuple(map(tuple, fields["skip"])),
    }
    return Work(**fields)


def main() -> None:
    """Do the work given on stdin."""
    began = time.monotonic()
    # Keep what models and kernels print out of the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    work = parse_work(sys.stdin.read())
    # Entries allocate blocks of different sizes, which would fragment the memory of a large case.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    # torch sets these itself where CUDA graphs and the profiler share a process.
    os.environ.update({"DISABLE_CUPTI_LAZY_REINIT": "1", "TEARDOWN_CUPTI": "0"})

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    from patchgen.training.bench.machine import machine, versions
    from patchgen.training.bench.run_case import Budget, run_case
    from patchgen.training.bench.sets import select_cases
    from patchgen.training.silence import silence_process

    silence_process()
    budget = Budget(began + work.seconds, work.times)
    say(machine=machine(work.device), versions=versions())
    for case in select_cases(work.table, work.cases, work.only, tiny=work.tiny):
        skip = {name for place, name in work.skip if place == case.id}
        run_case(case, work.device, work.tiny, skip, budget, say)
    say(done=True)


if __name__ == "__main__":
    main()
