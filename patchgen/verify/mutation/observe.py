"""Which case sees an error?

Cases are run as `verify` runs them, with the same bounds: an error is seen where one compares
unequal.  A case that crashes says nothing: everybody notices a crash who runs the
file, and not by comparing.
"""

from __future__ import annotations

import functools
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import torch
from transformers import set_seed

from patchgen.verify.cases.case import Case
from patchgen.verify.checks import CHECKS
from patchgen.verify.checks.context import CheckContext, NothingToCompare
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.lines_run import watched
from patchgen.verify.mutation.operation_log import OperationLog
from patchgen.verify.observe.recorder import listening

# Kinds whose verdict is a comparison, with no other error planted.
KINDS = (
    "numbers",
    "weights",
    "cache",
    "generated",
    "checkpoints",
    "fresh",
    "interface",
    "effect",
    "kept",
    "choices",
    "operators",
    "kernels",
    "zeros",
    "pace",
    "work",
    "loss beside logits",
    "isolation",
    "norms",
    "drops",
    "attention",
    "compiled",
)
# The result of these is no list of operations, but a compiled graph, or how often something is
# called; or it is one of a model that is copied for the case, which computes its tables anew.
UNRECORDED = (
    "compiled",
    "pace",
    "work",
    "loss beside logits",
    "isolation",
    "drops",
    "kept",
    "choices",
    "operators",
)
# The CPU time that one case may take with an error in it, so that a busy machine changes nothing.
SECONDS, TIMES = 4.0, 10  # at least, and times what it takes without the error

Answer = Literal["equal", "unequal", "crash"]


class TooSlow(Exception):
    """A case with the error does not end within its limit."""


@dataclass(frozen=True)
class Watched:
    """One case as the right variant runs it."""

    case: Case
    pair: Pair
    lines: frozenset[int]  # of the file
    seconds: float  # of the processor

    def runs(self, line: int, last: int) -> bool:
        return any(line <= each <= last for each in self.lines)

    @functools.cached_property
    def digest(self) -> str:
        """The digest of what the right variant computes; empty if it cannot be recorded."""
        return record_operations(self.case, self.pair, math.inf)

    @property
    def limit(self) -> float:
        """The CPU time that the case may take with an error in the variant."""
        return max(SECONDS, TIMES * self.seconds)


def watch(case: Case, pair: Pair, path: Path) -> Watched | None:
    """The case without any error; None if it has nothing to compare, or fails."""
    begun = time.process_time()
    with watched(path) as lines:
        answer, _ = judged(case, pair, seconds=math.inf)
    seconds = time.process_time() - begun
    return Watched(case, pair, frozenset(lines), seconds) if answer == "equal" else None


def judged(case: Case, pair: Pair, seconds: float = SECONDS) -> tuple[Answer, str]:
    """The verdict of `case` on `pair`, and its words."""
    set_seed(0)  # some cases draw weights of their own
    try:
        with _limited(seconds):
            verdict = CHECKS[case.kind](CheckContext(pair, case, lambda _: None))
    except (NothingToCompare, CannotBuild) as reason:
        return "crash", str(reason)
    except Exception as error:  # a model with an error may raise anything
        return "crash", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if verdict.status != "FAIL":
        return "equal", ""
    if case.kind == "attention" and verdict.note.startswith("declared"):
        return "crash", verdict.note
    return "unequal", verdict.note


def record_operations(case: Case, pair: Pair, seconds: float = SECONDS) -> str:
    """The digest of what the variant computes in `case`; empty if it crashes or is not recorded."""
    if case.kind in UNRECORDED:
        return ""
    set_seed(0)
    with listening(recording := OperationLog()):
        if case.kind not in ("numbers", "weights"):
            answer, _ = judged(case, pair, seconds)
            return recording.digest() if answer != "crash" else ""
        # The step alone: what is compared afterwards is the same where the step is.
        weighed = case.kind == "weights"
        route = pair.weights_route if weighed else pair.route(case.route)
        try:
            with _limited(seconds):
                pair.observe_variant(
                    route, getattr(torch, case.dtype), case.scenario, weights=weighed
                )
        except Exception:  # a model with an error may raise anything
            return ""
    return recording.digest()


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TooSlow after so much of the processor's time, where a signal can be had."""
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"took more than {seconds:.0f} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
