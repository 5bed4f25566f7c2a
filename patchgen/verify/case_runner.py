"""Run the cases of one variant.  Pairs of models are built once and kept."""

from __future__ import annotations

import contextlib
import functools
import math
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from patchgen.verify.cases.case import Case
from patchgen.verify.checks import CHECKS
from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.checks.numbers import measure_planted_error
from patchgen.verify.compare.blame import say_ties, say_where
from patchgen.verify.inputs.arguments import CannotBuild, takes
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.part_check import DoesNotLoad
from patchgen.verify.report.result import Result, Status
from patchgen.verify.variants import SETTING, Variant

# Kinds that hold the variant against itself: what its parent fails of too is no fault of its own.
WITHOUT_PARENT = frozenset({"cache", "compiled", "operators", "itself"})


@dataclass(frozen=True)
class CaseRunner:
    """Runs the cases of one variant on one device."""

    variant: Variant
    device: str = "cpu"
    seed: int = 0

    @functools.cached_property
    def _pairs(self) -> dict[Any, Pair]:
        return {}

    def pair(self, case: Case) -> Pair:
        """The parent and the variant of the case's class."""
        # Some values are dictionaries.
        key = (case.head, f"{case.changes!r}{' at its neutral point' if case.neutral else ''}")
        if key not in self._pairs:
            variant, changes = self.variant, dict(case.changes)
            if case.neutral:
                variant = replace(variant, differs=())
                values = dict(variant.equal_if).items()
                changes |= {n.removeprefix(SETTING): v for n, v in values if n.startswith(SETTING)}
            self._pairs[key] = Pair(
                variant, case.head, self.device, changes, self.seed, is_neutral=case.neutral
            )
        return self._pairs[key]

    def run(self, case: Case) -> Result:
        """The result of one case."""
        begun = time.perf_counter()
        verdict = self._verdict(case)
        seconds = round(time.perf_counter() - begun, 3)
        return Result(self.variant.name, case.name, **asdict(verdict), seconds=seconds)

    def ready(self, case: Case) -> tuple[Case, Pair]:
        """The case with the changes that this configuration knows, and its pair.

        Raises NothingToCompare if the configuration cannot have the changes.
        """
        if case.changes and not case.whole:
            case = _possible(self.pair(replace(case, changes=())), case)
        return case, self.pair(case)

    def _explain_declared(self, case: Case) -> None:
        """Raises NothingToCompare where the case compares what differs on purpose."""
        if case.kind in WITHOUT_PARENT or case.neutral:
            return
        mode = "training" if case.scenario.train else "eval"
        changed = [f"{SETTING}{name}" for name, _ in case.changes]
        for name, why in self.variant.differs:
            if name == mode or name in changed:
                raise NothingToCompare(f"{name} differs on purpose: {why}")

    def _verdict(self, case: Case) -> Verdict:
        try:
            self._explain_declared(case)
            possible, pair = self.ready(case)
        except (NothingToCompare, CannotBuild) as reason:
            return Verdict("NONE", str(reason))
        except Exception as error:
            return Verdict("FAIL", say_error(error))
        try:
            verdict = self._check(possible, pair)
        except (NothingToCompare, CannotBuild) as reason:
            return Verdict("NONE", str(reason))
        except Exception as error:
            if _is_own_option(possible, pair):
                return Verdict("NONE", f"refused: {say_error(error)}")
            verdict = Verdict("FAIL", say_error(error), cause=say_error(error, in_short=True))
        if verdict.status != "FAIL":
            return verdict
        is_variant = self.variant.module != self.variant.parent
        if is_variant and case.kind in WITHOUT_PARENT and self._fails(possible, pair.of_parent()):
            status: Status = "NONE" if case.kind == "itself" else "WARN"
            return Verdict(status, f"the parent fails of it too: {verdict.note}")
        return replace(verdict, cause=_find_cause(possible, pair, verdict))

    def _check(self, case: Case, pair: Pair) -> Verdict:
        return CHECKS[case.kind](CheckContext(pair, case, self.find_smallest_planted))

    def _fails(self, case: Case, pair: Pair) -> bool:
        try:
            return self._check(case, pair).status == "FAIL"
        except (NothingToCompare, CannotBuild):
            return False
        except Exception:  # a model raises what it likes
            return True

    @functools.cached_property
    def _smallest(self) -> dict[Any, float]:
        return {}

    def find_smallest_planted(self, case: Case) -> float | None:
        """How far the smallest planted error moves the variant's first class, in the case's dtype.

        None if no planted error fits.  A bound is compared with this number.
        """
        main = replace(case, head=self.variant.heads[0], changes=())
        key = (main.head, case.dtype)
        if key not in self._smallest:
            pair, dtype = self.pair(main), getattr(torch, case.dtype)
            self._smallest[key] = min(_fitting(pair, dtype), default=math.nan)
        smallest = self._smallest[key]
        return None if math.isnan(smallest) else smallest


def _fitting(pair: Pair, dtype: torch.dtype) -> Iterator[float]:
    """How far each planted error that fits moves the variant."""
    for planted_error in (
        planted_error
        for part_check in pair.part_checks
        for planted_error in part_check.planted_errors
    ):
        with contextlib.suppress(NothingToCompare, CannotBuild):
            yield measure_planted_error(pair, planted_error, dtype)


def say_error(error: Exception, *, in_short: bool = False) -> str:
    """An error in a line, with the innermost file and line that it was raised at.

    In short it ends before the first name or list, which differ from case to case.
    """
    words = " ".join(str(error).split())[:400]
    if isinstance(error, DoesNotLoad):
        return "" if in_short else words
    words = re.split(r"[\[({'\"]", words)[0].strip() if in_short else words
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        if Path(place.tb_next.tb_frame.f_code.co_filename).name == "float64.py":
            break  # it stands between the model and torch
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {words}{at}"


def _is_own_option(case: Case, pair: Pair) -> bool:
    """Whether a guessed value is of an option that the variant adds, of which nothing is known."""
    theirs = pair.parent_class.config_class()
    return case.drawn and not any(hasattr(theirs, name.split(".")[0]) for name, _ in case.changes)


def _find_cause(case: Case, pair: Pair, verdict: Verdict) -> str:
    """What many cases fail of: the module that computes something else, in words."""
    if verdict.cause or case.kind not in ("numbers", "weights"):
        return verdict.cause
    route = pair.weights_route if case.kind == "weights" else pair.route(case.route)
    scenario, dtype = case.scenario, getattr(torch, case.dtype)
    try:
        models = pair.models(route, dtype, scenario.dropout)
        if tied := say_ties(*models):
            return tied
        inputs = pair.inputs(scenario, dtype)
        plain = replace(scenario, checkpointing=None)
        return say_where(*models, lambda model: observe_step(model, inputs, plain))
    except Exception:  # a model raises what it likes, and the verdict has words of its own
        return ""


def _possible(pair: Pair, case: Case) -> Case:
    """The case with those of its changes that the configuration knows.

    Raises NothingToCompare if it does not know the first change, or has that value anyway.
    """
    config = pair.config()
    known = {name for name in config.to_dict() if name not in config.sub_configs}
    (first, value), *_ = case.changes
    if first not in known or config.is_encoder_decoder:
        raise NothingToCompare(f"the configuration has no {first}")
    if getattr(config, first) == value:
        raise NothingToCompare(f"{first} is {value} anyway")
    if first == "add_cross_attention" and "encoder_hidden_states" not in takes(pair.parent_class):
        raise NothingToCompare("its forward takes no encoder_hidden_states")
    return replace(case, changes=tuple((name, v) for name, v in case.changes if name in known))
