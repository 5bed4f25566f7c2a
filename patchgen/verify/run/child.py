"""The child process: it runs cases one after the other and writes each result as a line of JSON.

`patchgen.verify.run.children` starts it, and ends it if a case takes too long or too much memory.
The `Work` comes on stdin.  A line names each case before it begins, so that the listener knows
which case a process died in.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from patchgen.verify.report import Result
from patchgen.verify.variants import Plan, Variant

if TYPE_CHECKING:
    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.cases.case import Case
    from patchgen.verify.mutation.prove import MutationTest


# Of a plan's time, until when cases run, and errors are tried; those that are planted get the rest.
FOR_CASES, FOR_TRIALS = 0.7, 0.85
FOR_ONE = 0.03  # for one of these, where the most telling cases do not see it


@dataclass(frozen=True, slots=True)
class Work:
    """What one child has to do."""

    variant: Variant
    plan: Plan
    device: str
    skip: tuple[str, ...] = ()  # names of cases that are done, and of what is not to be tried again
    compared: tuple[str, ...] = ()  # those of them that compared something, and well

    def without(self, *names: str) -> Work:
        return replace(self, skip=(*self.skip, *names))

    def with_result(self, result: Result) -> Work:
        """Without the case of `result`, which is done."""
        well = (result.case,) if result.status in ("PASS", "WARN") else ()
        return replace(self.without(result.case), compared=(*self.compared, *well))

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def read_work(text: str) -> Work:
    """The inverse of `Work.as_text`."""
    fields: dict[str, Any] = json.loads(text, object_hook=_with_tuples)
    return Work(
        **{**fields, "variant": Variant(**fields["variant"]), "plan": Plan(**fields["plan"])}
    )


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    def fixed(value: Any) -> Any:
        return tuple(map(fixed, value)) if isinstance(value, list) else value

    return {name: fixed(value) for name, value in fields.items()}


def main() -> None:
    """Do the work that comes on stdin."""
    # What models print must not get between the lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    work = read_work(sys.stdin.read())

    import torch
    from transformers.utils import logging

    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.cases.select import select_cases
    from patchgen.verify.parts.combine import find_part_checks

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    try:
        todo = select_cases(work.variant, find_part_checks(work.variant.checked_parts), work.plan)
    except LookupError as error:
        say(refused=str(error))
        return
    bench = CaseRunner(work.variant, work.device, work.plan.seed)
    say(todo=len(todo))
    compared = set(work.compared)
    proof = _proof_of(work, bench, lambda: say(alive=True))
    watches = proof is not None and work.device == "cpu"
    left_out = 0
    for case in (case for case in todo if case.name not in work.skip):
        if _is_late(work, FOR_CASES):
            left_out += 1
            continue
        say(begun=case.name)
        result = (
            _run_watched(bench, case, proof) if proof is not None and watches else bench.run(case)
        )
        compared |= {case.name} if result.status in ("PASS", "WARN") else set()
        say(result=result.as_json())
    unplanted = _prove(work, proof, compared, say) if proof is not None else 0
    say(done=True, left_out=left_out, unplanted=unplanted)


def _is_late(work: Work, share: float = 1.0) -> bool:
    """Whether this share of the time that the plan gives has gone."""
    seconds = work.plan.seconds
    return seconds is not None and time.process_time() > seconds * share


def _proof_of(work: Work, bench: CaseRunner, alive: Callable[[], None]) -> MutationTest | None:
    """The mutation test of the variant, if the plan asks for one; it always runs on a CPU."""
    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.mutation.prove import MutationTest

    if not work.plan.lines and work.plan.mutants == 0:
        return None
    return MutationTest(
        work.variant,
        (bench if work.device == "cpu" else CaseRunner(work.variant, seed=work.plan.seed)).ready,
        alive=alive,
        until=math.inf if work.plan.seconds is None else FOR_TRIALS * work.plan.seconds,
        seconds=math.inf if work.plan.seconds is None else FOR_ONE * work.plan.seconds,
    )


def _run_watched(bench: CaseRunner, case: Case, proof: MutationTest) -> Result:
    """The result of `case`; the mutation test notes which lines ran in it."""
    begun = time.process_time()
    with proof.watching(case) as lines:
        result = bench.run(case)
    if result.status in ("PASS", "WARN"):
        proof.note(case, lines, time.process_time() - begun)
    return result


def _prove(
    work: Work, proof: MutationTest, compared: Collection[str], say: Callable[..., None]
) -> int:
    """Report which changed lines run, and plant errors in them; gives how many are left out.

    Only cases that compared well are used: another case would not see an error.
    """
    unplanted = 0
    for case in proof.cases(work.plan):
        name = f"lines of {case.name}"
        if case.name in compared and name not in work.skip and not _is_late(work):
            say(begun=name)
            proof.watch(case)
    say(begun="lines of a model that is built")
    say(lines=proof.lines_run().as_json())
    # Which of them run is found out by running them all: where cases did not fit, they do not.
    if _is_late(work, FOR_CASES):
        return work.plan.mutants if work.plan.mutants is not None else len(proof.mutants(None))
    say(begun="lines of errors that are tried")
    for mutant in proof.mutants(work.plan.mutants):
        fate = proof.unknown(mutant)
        if fate.name in work.skip:
            continue
        if _is_late(work):
            unplanted += 1
            continue
        say(begun=fate.name, mutant=fate.as_json())
        say(fate=proof.fate(mutant).as_json())
    return unplanted


if __name__ == "__main__":
    main()
