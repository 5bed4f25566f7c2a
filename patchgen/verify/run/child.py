"""The child process: it runs cases one after the other and sends each result.

`patchgen.verify.run.children` starts it, and ends it if a case takes too long or too much memory.
It names each case before it begins, so that the listener knows which case a process died in.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from patchgen.verify.report import Result
from patchgen.verify.variants import Plan, Variant

if TYPE_CHECKING:
    from patchgen.verify.mutation.prove import MutationTest

# Of a plan's time, until when cases run; errors that are planted get the rest.
FOR_CASES = 0.7
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


def do_work(work: Work, answers: Connection) -> None:
    """Run the cases of `work`; each answer is a dictionary with a key for what it tells."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # models print
        os.dup2(nowhere, stream)
    # The models are tiny: a second thread waits longer than it computes.
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    warnings.simplefilter("ignore")
    try:
        _do_work(work, lambda **answer: answers.send(answer))
    except Exception as error:  # of no case: of an import, or of what comes between two cases
        answers.send({"fault": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})


def _do_work(work: Work, say: Callable[..., None]) -> None:
    import torch
    from transformers.utils import logging

    from patchgen.verify.case_runner import CaseRunner
    from patchgen.verify.cases import select_cases
    from patchgen.verify.mutation.prove import MutationTest
    from patchgen.verify.parts.combine import find_part_checks

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    variant, plan = work.variant, work.plan
    try:
        todo = select_cases(variant, find_part_checks(variant.checked_parts), plan)
    except LookupError as error:
        say(refused=str(error))
        return
    bench = CaseRunner(variant, work.device, plan.seed)
    say(todo=len(todo))
    compared, left_out, unplanted = set(work.compared), 0, 0
    proof: MutationTest | None = None
    if plan.lines or plan.mutants != 0:  # it always runs on a CPU
        on_cpu = bench if work.device == "cpu" else CaseRunner(variant, seed=plan.seed)
        limit = math.inf if plan.seconds is None else plan.seconds
        proof = MutationTest(variant, on_cpu.pair, FOR_ONE * limit, lambda: say(alive=True))
    for case in (case for case in todo if case.name not in work.skip):
        if _is_late(plan, FOR_CASES):
            left_out += 1
            continue
        say(begun=case.name)
        if proof is not None and work.device == "cpu":  # note which lines run in it
            begun = time.process_time()
            with proof.watching(case) as lines:
                result = bench.run(case)
            if result.status in ("PASS", "WARN"):
                proof.note(case, lines, time.process_time() - begun)
        else:
            result = bench.run(case)
        compared |= {case.name} if result.status in ("PASS", "WARN") else set()
        say(result=result)
    if proof is not None:
        unplanted = _prove(work, proof, compared, say)
    say(done=True, left_out=left_out, unplanted=unplanted)


def _is_late(plan: Plan, share: float = 1.0) -> bool:
    """Whether this share of the time that the plan gives has gone."""
    return plan.seconds is not None and time.process_time() > plan.seconds * share


def _prove(
    work: Work, proof: MutationTest, compared: Collection[str], say: Callable[..., None]
) -> int:
    """Report which changed lines run, and plant errors in them; gives how many are left out.

    Only cases that compared well are used: another case would not see an error.
    """
    plan, unplanted = work.plan, 0
    for case in proof.cases(plan):
        name = f"lines of {case.name}"
        if case.name in compared and name not in work.skip and not _is_late(plan):
            say(begun=name)
            proof.watch(case)
    say(begun="lines of a model that is built")
    say(lines=proof.lines_run())
    # Which of them run is found out by running them all: where cases did not fit, they do not.
    if _is_late(plan, FOR_CASES):
        return plan.mutants if plan.mutants is not None else len(proof.mutants(None)[0])
    chosen, others = proof.mutants(plan.mutants)
    todo = list(chosen)
    for mutant in todo:
        fate = proof.unknown(mutant)
        if fate.name in work.skip:
            continue
        if _is_late(plan):
            unplanted += 1
            continue
        say(begun=fate.name, mutant=fate)
        fate = proof.fate(mutant)
        following = next(others, None) if fate.outcome == "crashed" else None
        if following is not None:  # it has the place of what nobody can overlook
            todo.append(following)
            say(left=fate.name)
        else:
            say(fate=fate)
    return unplanted
