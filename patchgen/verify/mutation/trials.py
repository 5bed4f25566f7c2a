"""The verdicts of the cases on one planted error, and the models that have it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import ModuleType

from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.mutant_result import MutantResult
from patchgen.verify.mutation.mutated_pair import MutatedPair, mutated
from patchgen.verify.mutation.observe import TooSlow, Watched, judged


class Trials:
    """The verdicts of the cases on one error, in the order of the runs."""

    def __init__(self, pairs: MutatedPairs) -> None:
        self.pairs = pairs
        self.seen_by = ""
        self.run = 0
        self.crashes: list[str] = []

    def judge(self, runs: Sequence[Watched]) -> bool:
        """Run each until one compares unequal: whether one did."""
        for run in runs:
            answer, note = judged(run.case, self.pairs.of(run.pair), run.limit)
            self.run += 1
            if answer == "unequal":
                self.seen_by = run.case.name
                return True
            if answer == "crash":
                self.crashes.append(f"{run.case.name}: {note}")
                if note.startswith(TooSlow.__name__):
                    return False  # the others would be too slow as well
        return False

    def outcome(self, fate: MutantResult, every: int) -> MutantResult:
        """seen; failed if a case crashed, which anybody notices; otherwise unseen."""
        fate = replace(fate, cases=self.run)
        if self.seen_by:
            return replace(fate, outcome="seen", note=self.seen_by)
        if self.crashes:
            note = f"{len(self.crashes)} of {self.run} cases crashed: {self.crashes[0]}"
            return replace(fate, outcome="failed", note=note)
        return replace(fate, note=f"{self.run} of {every} cases ran it; it computes something else")


class MutatedPairs:
    """The mutated pairs of one error, each made once."""

    def __init__(self, module: ModuleType, loans: ExitStack, is_built_anew: bool) -> None:
        self.module, self.loans, self.is_built_anew = module, loans, is_built_anew
        self.made: dict[int, MutatedPair] = {}

    def of(self, right: Pair) -> MutatedPair:
        if id(right) not in self.made:
            self.made[id(right)] = mutated(
                right, self.module, self.loans, is_built_anew=self.is_built_anew
            )
        return self.made[id(right)]
