"""Plant small errors in the changed lines of one variant, and see which are noticed.

Only cases that run a mutant's line are run for it, the most telling first, until one compares
unequal.  Where the first few do not, the operations are compared: what computes the same need not
be compared further.
"""

from __future__ import annotations

import ast
import functools
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch

from patchgen.verify.cases.case import Case
from patchgen.verify.cases.order import order_cases
from patchgen.verify.cases.select import select_cases
from patchgen.verify.models.build import build_variant
from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.changed_lines import FlatText, read_flat_text
from patchgen.verify.mutation.lines_run import (
    find_executable_lines,
    find_import_lines,
    refusals,
    watched,
)
from patchgen.verify.mutation.mutant_result import LinesRun, MutantResult
from patchgen.verify.mutation.mutate import Mutant, drawn, make_mutants
from patchgen.verify.mutation.mutated_pair import mutated
from patchgen.verify.mutation.observe import (
    KINDS,
    Watched,
    record_operations,
    watch,
)
from patchgen.verify.mutation.plant import Living, is_in_function, living, plant_mutant
from patchgen.verify.mutation.trials import MutatedPairs, Trials
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant

# A case as the variant's configuration can have it, and its sides; or NothingToCompare.
Ready = Callable[[Case], tuple[Case, Pair]]
# So many cases only compare: most errors are seen in them.
FEW = 5
# So many of those that bring nothing new are run of an error that computes something else, behind
# all that do.
MORE = 20


@dataclass(frozen=True)
class MutationTest:
    """The changed lines of `variant`, the cases that run them, and errors in them."""

    variant: Variant
    pair_for: Ready
    device: str = "cpu"

    @functools.cached_property
    def flat(self) -> FlatText:
        return read_flat_text(self.variant)

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.flat.text)

    @functools.cached_property
    def _watched(self) -> list[Watched]:
        return []

    @functools.cached_property
    def _twins(self) -> list[Case]:
        return []

    @functools.cached_property
    def _names(self) -> set[str]:
        return set()

    @property
    def runs(self) -> list[Watched]:
        """The cases whose lines were recorded."""
        return self._watched

    @contextmanager
    def watching(self, case: Case) -> Iterator[set[int]]:
        """A context that notes which lines run while `verify` runs the case; see `note`."""
        if case.kind not in KINDS or self._is_slow(case):
            yield set()
            return
        try:
            path = self._path
        except Exception:  # the file cannot be imported, and the case itself fails with that
            yield set()
            return
        with watched(path) as lines:
            yield lines

    def note(self, case: Case, lines: Collection[int], seconds: float) -> None:
        """Record the lines of a case that passed inside `watching`."""
        if case.kind in KINDS and not self._is_slow(case) and not self._is_covered(case):
            ready, pair = self.pair_for(case)
            self._watched.append(Watched(ready, pair, frozenset(lines), seconds))

    def _is_covered(self, case: Case) -> bool:
        """Whether it was watched, here or in a more sensitive dtype, and no line is missing."""
        twin = replace(case, name="", dtype="")
        known = twin in self._twins and (case.name in self._names or not self._missed())
        self._twins.append(twin)
        self._names.add(case.name)
        return known

    def watch(self, case: Case) -> None:
        """Record which lines run in `case`, if it compares something."""
        if self._is_covered(case):
            return
        try:
            ready, pair = self.pair_for(case)
        except Exception:  # the case itself has failed with it
            return
        run = watch(ready, pair, self._path)
        if run is not None:
            self._watched.append(run)

    def cases(self, plan: Plan) -> Iterator[Case]:
        """The cases of a plan whose verdict is a comparison."""
        for case in select_cases(self.variant, find_part_checks(self.variant.checked_parts), plan):
            if case.kind in KINDS and not self._is_slow(case):
                yield case

    def _is_slow(self, case: Case) -> bool:
        """Flex attention is compiled, which takes minutes where it is accepted."""
        declared = any(
            part_check.attentions is not None
            for part_check in find_part_checks(self.variant.checked_parts)
        )
        return case.kind == "attention" and case.detail == "flex_attention" and not declared

    @functools.cached_property
    def _module(self) -> ModuleType:
        return Pair(self.variant, self.variant.heads[0], self.device).module

    @functools.cached_property
    def _path(self) -> Path:
        return Path(str(self._module.__file__))

    @functools.cached_property
    def _living(self) -> Living:
        return living(self._module, self.flat.text)

    # --- lines

    @functools.cached_property
    def _built(self) -> Mapping[int, frozenset[int]]:
        """The lines that run while the model of each pair is built, by the pair's id."""
        pairs = {id(run.pair): run.pair for run in self._watched}
        return {key: self._built_by(pair) for key, pair in pairs.items()}

    def _built_by(self, pair: Pair) -> frozenset[int]:
        # As the cases build it: a mixture's configuration has settings that the parent's lacks.
        parent = pair.master(torch.float32)
        with watched(self._path) as lines:
            build_variant(parent, pair.variant_class, pair.build, pair.routes[0])
        return frozenset(lines)

    @property
    def built_lines(self) -> frozenset[int]:
        """The lines that run while a model is built."""
        return frozenset().union(*self._built.values())

    @functools.cached_property
    def _can_run(self) -> frozenset[int]:
        """The changed lines at which something can run."""
        return self.flat.changed & find_executable_lines(self.flat.text, self.flat.name)

    @functools.cached_property
    def _imported(self) -> frozenset[int]:
        return find_import_lines(self.flat.text, self.flat.name)

    def _missed(self) -> frozenset[int]:
        """The changed lines that no case watched so far has run, nor the import."""
        return self._can_run - self._imported.union(*(run.lines for run in self._watched))

    def lines_run(self) -> LinesRun:
        """The record of which changed lines ran."""
        refusing = refusals(self.tree)
        missed = sorted(self._missed() - self.built_lines)
        named = tuple(
            (line, self.flat.line(line).strip()) for line in missed if line not in refusing
        )
        refused = tuple((line, self.flat.line(line).strip()) for line in missed if line in refusing)
        ran = len(self._can_run) - len(missed)
        unplanted = sum(not self._has_run(mutant) for mutant in self._every_mutant)
        made = len(self._every_mutant) - unplanted
        return LinesRun(self.flat.name, len(self._can_run), ran, named, refused, made, unplanted)

    # --- mutants

    @functools.cached_property
    def _every_mutant(self) -> tuple[Mutant, ...]:
        return make_mutants(self.flat.text, self.flat.changed)

    @functools.cached_property
    def _ran(self) -> frozenset[int]:
        return self.built_lines.union(*(run.lines for run in self._watched))

    def mutants(self, number: int | None) -> tuple[Mutant, ...]:
        """A sample of `number`, the same in every run, of those whose lines ran; None: all."""
        ran = tuple(mutant for mutant in self._every_mutant if self._has_run(mutant))
        return drawn(ran, self.flat.text, number, self.variant.name)

    def _has_run(self, mutant: Mutant) -> bool:
        return not is_in_function(mutant) or _touches(mutant, self._ran)

    def unknown(self, mutant: Mutant) -> MutantResult:
        """The result of `mutant` before it is planted."""
        place, text = f"{self.flat.name}:{mutant.line}", self.flat.text
        diff, digest = mutant.diff(text), mutant.digest(text)
        return MutantResult(place, mutant.function, mutant.says, diff, "unseen", digest=digest)

    def fate(self, mutant: Mutant) -> MutantResult:
        """Plant `mutant`, and return its outcome."""
        fate = self.unknown(mutant)
        telling, rest = self._that_run(mutant)
        if not telling:
            return replace(fate, note="no case runs its line")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with self._planted(mutant) as pairs:
                    trials = Trials(pairs)
                    if trials.judge(telling[:FEW]):
                        return trials.outcome(fate, len(telling) + len(rest))
                every = len(telling) + len(rest)
                if not trials.crashes:
                    same = self._computes_the_same(mutant, telling)
                    if same:
                        note = f"the same operations in {same} of the {every} cases that run it"
                        return replace(fate, outcome="equivalent", note=note, cases=same)
                more = [*telling[FEW:], *rest[:MORE]]
                if trials.crashes:  # it is no silent error; but a comparison may see it elsewhere
                    more = more[:FEW]
                with self._planted(mutant) as pairs:
                    trials.pairs = pairs
                    trials.judge(more)
                    return trials.outcome(fate, len(telling) + len(rest))
            except Exception as error:  # the text with the error is no module
                message = f"{type(error).__name__}: {error}"
                return replace(fate, outcome="failed", note=message[:200])

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[MutatedPairs]:
        anew = not is_in_function(mutant) or self._runs_at_build(mutant)
        with plant_mutant(self._living, mutant) as wrong, ExitStack() as loans:
            yield MutatedPairs(wrong, loans, anew)

    def _that_run(self, mutant: Mutant) -> tuple[Sequence[Watched], Sequence[Watched]]:
        """The cases that run its line: those of which each brings something new, and the rest.

        What is compiled takes long, and is only run where nothing else runs the line.
        """
        runs = self._watched
        if is_in_function(mutant):
            runs = [run for run in runs if _touches(mutant, run.lines | self._built[id(run.pair)])]
        runs = [run for run in runs if run.case.kind != "compiled"] or runs
        paths = [run.lines & self._can_run for run in runs]
        order = order_cases([run.case for run in runs], paths)
        return [runs[at] for at in order.telling], [runs[at] for at in order.rest]

    def _runs_at_build(self, mutant: Mutant) -> bool:
        return _touches(mutant, self.built_lines)

    def _computes_the_same(self, mutant: Mutant, runs: Sequence[Watched]) -> int:
        """In how many of `runs` the same operations run with the error; 0 if not in all of them."""
        recorded = [run for run in runs if run.digest]  # without the error
        others: list[tuple[Watched, str]] = []
        with self._planted(mutant) as pairs:
            for run in recorded:
                digest = record_operations(run.case, pairs.of(run.pair), run.limit)
                if digest == run.digest:
                    continue
                if not (digest and pairs.is_built_anew):
                    return 0
                others.append((run, digest))
        # A model computes something else the first time where it remembers: a table of positions.
        if any(digest != self._digest_of_new_models(run) for run, digest in others):
            return 0
        return len(recorded)

    def _digest_of_new_models(self, run: Watched) -> str:
        """As `Watched.digest`, of models that are built for it."""
        with ExitStack() as loans:
            anew = mutated(run.pair, self._module, loans, is_built_anew=True)
            return record_operations(run.case, anew, math.inf)


def _touches(mutant: Mutant, lines: Collection[int]) -> bool:
    return any(line in lines for line in range(mutant.line, mutant.last_line + 1))
