"""Run cases on a variant that has an error.

Cases are run as `verify` runs them, with the same bounds: an error is seen where one compares
unequal.  A case that crashes says nothing: everybody notices a crash who runs the file, and not by
comparing.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import set_seed

from patchgen.system import limited
from patchgen.verify.cases.case import Case
from patchgen.verify.cases.order import COSTS
from patchgen.verify.checks import CHECKS
from patchgen.verify.checks.context import CheckContext, NothingToCompare
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair

# Kinds whose verdict is a comparison, with no other error planted.
KINDS = COSTS.keys() | {"numbers", "interface", "norms"}
# The CPU time that one case may take with an error in it, so that a busy machine changes nothing.
SECONDS, TIMES = 4.0, 10  # at least, and times what it takes without the error

Answer = Literal["equal", "unequal", "nothing", "crash"]  # nothing: the model refuses the case


class TooSlow(Exception):
    """A case with the error does not end within its limit."""


@dataclass(frozen=True)
class Watched:
    """One case as the right variant runs it."""

    case: Case
    pair: Pair
    lines: frozenset[int]  # of the file
    seconds: float  # of the processor

    @functools.cached_property
    def digest(self) -> str:
        """The digest of what the right variant gives; empty if the case compares something else."""
        return digest_of(self.case, self.pair, math.inf)

    @property
    def limit(self) -> float:
        """The CPU time that the case may take with an error in the variant."""
        return max(SECONDS, TIMES * self.seconds)


def judged(case: Case, pair: Pair, seconds: float = SECONDS) -> tuple[Answer, str]:
    """The verdict of `case` on `pair`, and its words."""
    set_seed(0)  # some cases draw weights of their own
    try:
        with limited(seconds, TooSlow):
            verdict = CHECKS[case.kind](CheckContext(pair, case, lambda _: None))
    except (NothingToCompare, CannotBuild) as reason:
        return "nothing", str(reason)
    except Exception as error:  # a model with an error may raise anything
        return "crash", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if verdict.status != "FAIL":
        return "equal", ""
    is_crash = case.kind == "attention" and verdict.note.startswith("declared")
    return "crash" if is_crash else "unequal", verdict.note


def digest_of(case: Case, pair: Pair, seconds: float = SECONDS) -> str:
    """The digest of every tensor that the variant gives in `case`, bit for bit.

    Empty for a case that compares something else, or where the variant crashes.
    """
    if case.kind not in ("numbers", "weights"):
        return ""
    set_seed(0)
    weighed = case.kind == "weights"
    route = pair.weights_route if weighed else pair.route(case.route)
    dtype = getattr(torch, case.dtype)
    try:
        with limited(seconds, TooSlow):
            observed = pair.observe_variant(route, dtype, case.scenario, weights=weighed)
    except Exception:  # a model with an error may raise anything
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(observed.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
