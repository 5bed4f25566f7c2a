"""A process that runs cases one after the other and says each result on its stdout, a line of JSON each.

It is started by `patchgen.lab.run`, which ends it where a case takes too long or too much memory.  On stdin: the
`Work`.  Before each case a line names it, so that whoever listens knows which one it was.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

from patchgen.lab.plan import Plan
from patchgen.lab.subject import Subject


@dataclass(frozen=True, slots=True)
class Work:
    """What one child is to do."""

    subject: Subject
    plan: Plan
    device: str
    threads: int
    skip: tuple[str, ...] = ()  # names of cases that are done

    def without(self, *names: str) -> Work:
        return replace(self, skip=(*self.skip, *names))

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def work_of(text: str) -> Work:
    """The inverse of `Work.as_text`."""
    told: dict[str, Any] = json.loads(text, object_hook=_with_tuples)
    return Work(**{**told, "subject": Subject(**told["subject"]), "plan": Plan(**told["plan"])})


def _with_tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def main() -> None:
    """Do the work on stdin."""
    # What models print must not get between the lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    work = work_of(sys.stdin.read())

    import torch
    from transformers.utils import logging

    from patchgen.lab.bench import Bench
    from patchgen.lab.cases import cases
    from patchgen.lab.claimed import claims_of

    def say(**told: Any) -> None:
        print(json.dumps(told), file=answers, flush=True)

    torch.set_num_threads(work.threads)
    logging.set_verbosity_error()
    try:
        todo = cases(work.subject, claims_of(work.subject.parts), work.plan)
    except LookupError as error:
        say(refused=str(error))
        return
    todo = tuple(case for case in todo if case.name not in work.skip)
    say(total=len(todo))
    bench = Bench(work.subject, work.device)
    for case in todo:
        say(begun=case.name)
        say(result=bench.run(case).as_json())
    say(done=True)


if __name__ == "__main__":
    main()
