"""Run the cases of variants in child processes, within limits of time and memory for each case.

A child runs cases one after the other and sends each result.  It names each case before it begins:
if it exceeds a limit or dies, that case is a FAIL, and another child goes on with the next.
"""

from __future__ import annotations

import functools
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from patchgen import system
from patchgen.children import safe_workers
from patchgen.syntax.errors import describe_error
from patchgen.verifying import report
from patchgen.verifying.variants import Plan, Variant

if TYPE_CHECKING:
    from patchgen.verifying.case_runner import CaseRunner
    from patchgen.verifying.checks.context import Case
    from patchgen.verifying.mutation.prove import MutationTest
    from patchgen.verifying.reached import Happened

WAITING = 10  # times as long by the clock, if all that it does is to wait
START = 180  # until the first case begins: importing torch and transformers on a cold, busy machine
ENDING = 5  # until a child has ended that has nothing more to do
INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
TICK = 0.2  # seconds between two looks at a silent process
# Of a plan's time, until when cases run; errors that are planted get the rest.
FOR_CASES = 0.7
FOR_ONE = 0.03  # for one of these, where the most telling cases do not see it
_SPAWN = get_context("spawn")  # a forked child would share what torch has initialised

Answers = Connection  # where a child says what it has
Progress = Callable[[report.Result], None]
# A variant, what is run of it now, how much of it has ended, and how many cases there are.
Began = Callable[[str, str, int, int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one case may take: seconds of the processor, and memory of its child."""

    seconds: float = 60
    megabytes: float = 3072


@dataclass(frozen=True, slots=True)
class Wanted:
    plan: Plan = Plan()
    device: str = "cpu"
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Work:
    variant: Variant
    plan: Plan
    device: str
    skip: tuple[str, ...] = ()  # names of cases that are done, and of what is not to be tried again
    compared: tuple[str, ...] = ()  # those of them that compared something, and well
    happened: frozenset[Happened] = frozenset()  # in those that compared numbers

    def without(self, name: str) -> Work:
        return replace(self, skip=(*self.skip, name))

    def with_result(self, result: report.Result, happened: frozenset[Happened]) -> Work:
        well = (result.case,) if result.status in ("PASS", "WARN") else ()
        compared = (*self.compared, *well)
        happened |= self.happened
        return replace(self.without(result.case), compared=compared, happened=happened)


def verify(
    variants: Sequence[Variant],
    wanted: Wanted,
    jobs: int = 0,
    progress: Progress = lambda result: None,
    began: Began = lambda variant, case, done, todo: None,
) -> tuple[report.Result, ...]:
    """The results in the order of `variants`, of which `jobs` run at a time (0: as many as fit)."""
    several = jobs or (system.processors() if wanted.device == "cpu" else 1)
    lock = threading.Lock()
    stopped = threading.Event()

    def results_of(variant: Variant) -> list[report.Result]:
        results = list[report.Result]()
        work = Work(variant, wanted.plan, wanted.device)
        for result in run_work(work, wanted.limits, began, stopped):
            results.append(result)
            with lock:
                progress(result)
        return results

    workers = max(1, min(several, len(variants)))
    with safe_workers(), ThreadPoolExecutor(workers, initializer=_leave_interrupts) as pool:
        try:
            every = tuple(pool.map(results_of, variants))
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(result for results in every for result in results)


def _leave_interrupts() -> None:
    """Ctrl-C is for the main thread: a child that it ended would be a case that fails."""
    if hasattr(signal, "pthread_sigmask"):  # which a child inherits
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def run_work(
    work: Work,
    limits: Limits,
    began: Began = lambda variant, case, done, todo: None,
    stopped: threading.Event | None = None,
) -> Iterator[report.Result]:
    """Each result of `work` as it comes, from as many children as it takes, until `stopped`."""
    stopped = stopped or threading.Event()
    variant = work.variant.name
    todo = 0
    fates: list[report.MutantResult] = []
    lines: report.LinesRun | None = None
    yield from report.describe(work.variant)
    while True:
        at: str | None = None
        mutant: report.MutantResult | None = None
        fault = "the process died"
        for answer in answers_of(_do_work, work, limits, stopped):
            match answer:
                case {"todo": number}:
                    todo = number
                case {"begun": name}:
                    at = name
                    mutant = answer.get("mutant")
                    began(variant, name, len(work.skip), todo)
                case {"result": result, "happened": happened}:
                    work = work.with_result(result, happened)
                    at = None
                    yield result
                case {"lines": lines}:
                    at = None
                case {"fate": fate}:
                    fates.append(fate)
                    work = work.without(fate.name)
                    at = None
                    mutant = None
                case {"left": name}:
                    work = work.without(name)
                    at = None
                    mutant = None
                case {"refused": reason}:
                    yield report.Result(variant, "all", "FAIL", note=reason)
                    return
                case {"fault": fault}:
                    pass
                case {"late": late, "missing": missing}:
                    if lines is not None:
                        yield report.make_lines_result(variant, lines)
                    if fates:
                        yield report.make_mutants_result(variant, tuple(fates), lines)
                    yield from report.make_open_results(variant, missing, late)
                    return
        if stopped.is_set():
            return
        if mutant is not None:
            fates.append(replace(mutant, outcome="crashed", note=fault))
        elif at is None or not at.startswith("lines of "):
            yield report.Result(variant, at or "all", "FAIL", note=fault)
        if at is None:
            return  # it would die again
        work = work.without(at)


def answers_of(
    do: Callable[[Any, Connection], None], work: Any, limits: Limits, stopped: threading.Event
) -> Iterator[dict[str, Any]]:
    """What a child answers that does `work`; each answer names what it tells.

    Last a "fault" if it exceeded its limits, died or could not work.
    """
    ours, theirs = _SPAWN.Pipe(duplex=False)
    child = _SPAWN.Process(target=do, args=(work, theirs), daemon=True)
    child.start()
    theirs.close()  # else nobody would see that the child has closed it
    assert child.pid is not None
    pid = child.pid
    limit = float(START)
    began = time.monotonic()
    had = system.spent_by(pid)
    try:
        while not stopped.is_set():  # else the child is killed below
            is_silent = not ours.poll(TICK)
            passed = time.monotonic() - began
            now = system.spent_by(pid)
            if now is None or had is None:  # the clock's time, where the system reports no other
                is_over = passed > limit
            else:
                is_over = now - had > limit or passed > max(limit, 1) * WAITING
            megabytes = system.resident_of(pid) / 2**20 if is_silent else 0.0
            if is_over or megabytes > limits.megabytes:
                what = f"{megabytes:.0f} MB of memory, more than {limits.megabytes:.0f}"
                child.kill()
                yield {"fault": f"took {f'more than {limit:.0f} seconds' if is_over else what}"}
                return
            if not is_silent:
                answer = ours.recv()
                yield answer
                if "fault" in answer:
                    return
                limit = limits.seconds
                began = time.monotonic()
                had = system.spent_by(pid)
    except (EOFError, OSError):
        child.join()
        yield {"fault": f"the process ended with code {child.exitcode}"}
    finally:
        ours.close()
        child.join(0 if stopped.is_set() else ENDING)
        child.kill()
        child.join()


# --- in the child


def silence_child() -> None:
    """Let nothing be seen of what models print."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    warnings.simplefilter("ignore")


def _do_work(work: Work, answers: Connection) -> None:
    """Run the cases of `work`; each answer is a dictionary with a key for what it tells."""
    silence_child()
    # The models are tiny: a second thread waits longer than it computes.
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        run_cases(work, lambda **answer: answers.send(answer))
    except Exception as error:  # of no case: of an import, or of what comes between two cases
        answers.send({"fault": describe_error(error, 300)})


def run_cases(work: Work, say: Callable[..., None]) -> None:
    import torch
    from torch._inductor.runtime.runtime_utils import default_cache_dir
    from transformers.utils import logging

    from patchgen.author.declare.registry import find_part_checks
    from patchgen.verifying.case_runner import CaseRunner
    from patchgen.verifying.cases import select_cases
    from patchgen.verifying.mutation.prove import MutationTest

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    # Inductor's cache does not know for which instructions of the processor it keeps a kernel.
    instructions = os.environ.get("ATEN_CPU_CAPABILITY")
    usual = default_cache_dir()
    if instructions and os.environ.get(INDUCTOR, usual) == usual:  # which torch may have set
        os.environ[INDUCTOR] = f"{usual}_{instructions}"
    variant = work.variant
    plan = work.plan
    try:
        todo = select_cases(variant, find_part_checks(variant.checked_parts), plan)
    except LookupError as error:
        say(refused=str(error))
        return
    runner = CaseRunner(variant, work.device, plan.seed)
    say(todo=len(todo))
    compared = set(work.compared)
    happened = set(work.happened)
    left_out = combinations = unplanted = 0
    proof: MutationTest | None = None
    if plan.lines or plan.mutants != 0:  # it always runs on a CPU
        on_cpu = runner if work.device == "cpu" else CaseRunner(variant, seed=plan.seed)
        limit = math.inf if plan.seconds is None else plan.seconds
        proof = MutationTest(variant, on_cpu.pair, FOR_ONE * limit, lambda: say(alive=True))
    for case in (case for case in todo if case.name not in work.skip):
        if _is_late(plan, FOR_CASES):
            combinations += case.combines
            left_out += not case.combines
            continue
        say(begun=case.name)
        # Of a case on another device no lines are noted.
        watching = proof if work.device == "cpu" else None
        result, new = _run_case(case, runner, watching)
        happened |= new
        if result.status in ("PASS", "WARN"):
            compared.add(case.name)
        say(result=result, happened=new)
    missing = _find_missing(runner, todo, happened)
    if proof is not None:
        unplanted = _prove(work, proof, compared, say)
    late = {"cases": left_out, "combinations": combinations, "planted errors": unplanted}
    say(late=late, missing=missing)


def _run_case(
    case: Case, runner: CaseRunner, proof: MutationTest | None
) -> tuple[report.Result, frozenset[Happened]]:
    """The result of a case, and what happened in it if it compared numbers, and well."""
    from patchgen.verifying.reached import noting

    run = runner.run if proof is None else functools.partial(proof.note, run=runner.run)
    if case.kind in ("compiled", "planted"):  # a hook would end its graphs; what is wrong is apart
        return run(case), frozenset()
    with noting(runner.variant.module) as happened:
        result = run(case)
    is_well = result.status in ("PASS", "WARN") and result.difference is not None
    return result, frozenset(happened) if is_well else frozenset()


def _find_missing(
    runner: CaseRunner, cases: Sequence[Case], happened: Collection[Happened]
) -> tuple[str, ...]:
    from patchgen.verifying.configs.read import read_of
    from patchgen.verifying.models.pair import module_of
    from patchgen.verifying.reached import find_missing

    variant = runner.variant
    try:
        module = module_of(variant)
    except Exception:  # no module: every case has failed with it
        return ()
    heads = dict.fromkeys(case.head for case in cases if case.kind == "numbers")
    return find_missing(module, read_of(variant).classes, heads, happened)


def _is_late(plan: Plan, share: float = 1.0) -> bool:
    """Whether this share of the time that the plan gives has gone."""
    return plan.seconds is not None and time.process_time() > plan.seconds * share


def _prove(
    work: Work, proof: MutationTest, compared: Collection[str], say: Callable[..., None]
) -> int:
    """Report which changed lines run, and plant errors in them; gives how many are left out."""
    plan = work.plan
    unplanted = 0
    for case in proof.cases(plan):
        name = f"lines of {case.name}"
        if case.name in compared and name not in work.skip and not _is_late(plan):
            say(begun=name)
            proof.watch(case)
    say(begun="lines of a model that is built")
    say(lines=proof.lines_run())
    # Then one of the cases that did not fit may see what these do not.
    are_left_out = _is_late(plan, FOR_CASES)
    chosen, others = proof.mutants(plan.mutants)
    todo = list(chosen)
    for mutant in todo:
        fate = proof.unseen(mutant)
        if fate.name in work.skip:
            continue
        if _is_late(plan):
            unplanted += 1
            continue
        say(begun=fate.name, mutant=fate)
        fate = proof.run_mutant(mutant)
        following = next(others, None) if fate.outcome == "crashed" else None
        if following is not None:  # it has the place of what nobody can overlook
            todo.append(following)
            say(left=fate.name)
        elif are_left_out and fate.outcome != "seen":
            unplanted += 1
            say(left=fate.name)
        else:
            say(fate=fate)
    return unplanted
