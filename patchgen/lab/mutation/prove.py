"""Small errors in the changed lines of one variant: each planted, and what became of it.

Only cases that run a mutant's line are run for it, the cheapest first, until one compares unequal.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from patchgen.lab.cases import Case, cases
from patchgen.lab.claimed import claims_of
from patchgen.lab.inputs import CannotBuild
from patchgen.lab.mutation.changed_lines import FlatText, flat_text_of
from patchgen.lab.mutation.fate import Fate, LinesRun
from patchgen.lab.mutation.lines_run import executable_lines, refusals, run_by_import, watched
from patchgen.lab.mutation.mutate import Mutant, drawn, mutants_of
from patchgen.lab.mutation.mutated_pair import MutatedPair, mutated
from patchgen.lab.mutation.observe import KINDS, Watched, by_cost, judged, recording_of, watch
from patchgen.lab.mutation.plant import Living, is_in_function, living, planted_in
from patchgen.lab.pair import Pair
from patchgen.lab.plan import Plan
from patchgen.lab.subject import Subject

# A case as the variant's configuration can have it, and its sides; raises Nothing where it cannot.
Ready = Callable[[Case], tuple[Case, Pair]]
# So many cases only compare, the cheapest: most errors are seen in them.  From then on each case
# first shows whether it computes anything else.
FEW = 6
# What crashes in each of the first cases, as many as these, is given up.
CRASHES = 5


@dataclass(frozen=True)
class Proof:
    """The changed lines of `subject`, the cases that run them, and errors in them."""

    subject: Subject
    pair_for: Ready
    device: str = "cpu"

    @functools.cached_property
    def flat(self) -> FlatText:
        return flat_text_of(self.subject)

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.flat.text)

    @functools.cached_property
    def _watched(self) -> list[Watched]:
        return []

    @functools.cached_property
    def _twins(self) -> list[Case]:
        return []

    @property
    def runs(self) -> list[Watched]:
        """The cases that were watched, the cheapest first."""
        return by_cost(self._watched)

    def watch(self, case: Case) -> None:
        """See which lines run in `case`, where it compares something.

        What was watched in a wider dtype is watched again only as long as lines have not run: the
        wider one sees more.
        """
        twin = replace(case, name="", dtype="")
        if twin in self._twins and not self._missed():
            return
        self._twins.append(twin)
        try:
            ready, pair = self.pair_for(case)
        except Exception:  # the case itself has said so
            return
        run = watch(ready, pair, self._path)
        if run is not None:
            self._watched.append(run)

    def cases(self, plan: Plan) -> Iterator[Case]:
        """Those of a plan whose verdict is a comparison."""
        for case in cases(self.subject, claims_of(self.subject.claimed), plan):
            if case.kind in KINDS and not self._is_slow(case):
                yield case

    def _is_slow(self, case: Case) -> bool:
        """Flex attention is compiled, which takes minutes where it is accepted."""
        declared = any(claim.attentions is not None for claim in claims_of(self.subject.claimed))
        return case.kind == "attention" and case.detail == "flex_attention" and not declared

    @functools.cached_property
    def _path(self) -> Path:
        return Path(str(self._living.path))

    @functools.cached_property
    def _living(self) -> Living:
        pair = Pair(self.subject, self.subject.heads[0], self.device)
        return living(pair.module, self.flat.text)

    # --- lines

    @functools.cached_property
    def built_lines(self) -> frozenset[int]:
        """Those that run while a model is built."""
        with watched(self._path) as lines:
            for head in {run.case.head for run in self.runs}:
                pair = Pair(self.subject, head, self.device)
                try:
                    pair.variant_class(pair.config())
                except (CannotBuild, TypeError, ValueError):
                    continue
        return frozenset(lines)

    @functools.cached_property
    def _can_run(self) -> frozenset[int]:
        """The changed lines at which something can run."""
        return self.flat.changed & executable_lines(self.flat.text, self.flat.name)

    @functools.cached_property
    def _imported(self) -> frozenset[int]:
        return run_by_import(self.flat.text, self.flat.name)

    def _missed(self) -> frozenset[int]:
        """The changed lines that no case watched so far has run, nor the import."""
        return self._can_run - self._imported.union(*(run.lines for run in self._watched))

    def lines_run(self) -> LinesRun:
        """Which of the changed lines ran."""
        refusing = refusals(self.tree)
        missed = sorted(self._missed() - self.built_lines)
        named = tuple((line, self.flat.line(line).strip()) for line in missed if line not in refusing)
        refused = tuple((line, self.flat.line(line).strip()) for line in missed if line in refusing)
        ran = len(self._can_run) - len(missed)
        return LinesRun(self.flat.name, len(self._can_run), ran, named, refused)

    # --- mutants

    def mutants(self, number: int | None) -> tuple[Mutant, ...]:
        """A sample of `number`, the same in every run; None: all."""
        made = mutants_of(self.flat.text, self.flat.changed)
        return drawn(made, self.flat.text, number, self.subject.name)

    def unknown(self, mutant: Mutant) -> Fate:
        """What is known of `mutant` before it is planted."""
        place, text = f"{self.flat.name}:{mutant.line}", self.flat.text
        diff, digest = mutant.diff(text), mutant.digest(text)
        return Fate(place, mutant.function, mutant.says, diff, "unseen", digest=digest)

    def fate(self, mutant: Mutant) -> Fate:
        """What becomes of `mutant`."""
        fate = self.unknown(mutant)
        runs = self._that_run(mutant)
        if not runs:
            return replace(fate, note="no case runs its line")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with self._planted(mutant) as pairs:
                    found = self._compared(fate, runs[:FEW], pairs)
                if found.outcome != "unseen":
                    return found
                right = {run.case.name: run.digest for run in runs}  # without the error
                with self._planted(mutant) as pairs:
                    return self._recorded(fate, runs, pairs, right)
            except Exception as error:  # the text with the error is no module
                told = f"{type(error).__name__}: {error}"
                return replace(fate, outcome="failed", note=told[:200])

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[_Wrong]:
        anew = not is_in_function(mutant) or self._runs_at_build(mutant)
        with planted_in(self._living, mutant) as wrong, ExitStack() as loans:
            yield _Wrong(wrong, loans, anew)

    def _that_run(self, mutant: Mutant) -> Sequence[Watched]:
        if not is_in_function(mutant):
            return self.runs
        at_build = self._runs_at_build(mutant)
        return [run for run in self.runs if at_build or run.runs(mutant.line, mutant.last_line)]

    def _runs_at_build(self, mutant: Mutant) -> bool:
        return any(mutant.line <= line <= mutant.last_line for line in self.built_lines)

    def _compared(self, fate: Fate, runs: Sequence[Watched], pairs: _Wrong) -> Fate:
        """seen where one of `runs` compares unequal, failed where each crashes, else unseen."""
        crashes = []
        for number, run in enumerate(runs, 1):
            answer, note = judged(run.case, pairs.of(run.pair))
            if answer == "unequal":
                return replace(fate, outcome="seen", note=run.case.name, cases=number)
            if answer == "crash":
                crashes.append(f"{run.case.name}: {note}")
        if len(crashes) == len(runs) >= CRASHES:
            return replace(fate, outcome="failed", note=crashes[0], cases=len(runs))
        return fate

    def _recorded(self, fate: Fate, runs: Sequence[Watched], pairs: _Wrong, right: Mapping[str, str]) -> Fate:
        """Of all cases: what computes the same need not be compared."""
        others, crashes, recorded = [], [], 0
        for number, run in enumerate(runs, 1):
            pair = pairs.of(run.pair)
            if right[run.case.name]:
                recorded += 1
                if recording_of(run.case, pair) == right[run.case.name]:
                    continue
            answer, note = judged(run.case, pair)
            if answer == "unequal":
                return replace(fate, outcome="seen", note=run.case.name, cases=number)
            if answer == "crash":
                crashes.append(f"{run.case.name}: {note}")
            elif right[run.case.name]:
                others.append(run.case.name)
        fate = replace(fate, cases=len(runs))
        if crashes:
            return replace(fate, outcome="failed", note=crashes[0])
        if others:
            told = f"{len(runs)} cases ran it; other operations in {others[0]}"
            return replace(fate, note=told)
        if not recorded:
            return replace(fate, note=f"{len(runs)} cases ran it, none of which can be recorded")
        return replace(fate, outcome="equivalent", note=f"the same operations in {len(runs)} cases")


class _Wrong:
    """The mutated pairs of one error, each made once."""

    def __init__(self, module: ModuleType, loans: ExitStack, is_built_anew: bool) -> None:
        self.module, self.loans, self.is_built_anew = module, loans, is_built_anew
        self.made: dict[int, MutatedPair] = {}

    def of(self, right: Pair) -> MutatedPair:
        if id(right) not in self.made:
            self.made[id(right)] = mutated(right, self.module, self.loans, is_built_anew=self.is_built_anew)
        return self.made[id(right)]
