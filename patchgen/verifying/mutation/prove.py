"""Plant small errors, mutants, in the changed lines of one variant, and see which are noticed.

    -    causal = queries > 1                   a mutant
    +    causal = queries >= 1

    seen                a case compares unequal, by its usual bound
    crashed             a case raises an error, which says nothing
    no difference       all cases that run its line give the same, bit for bit
    unseen              they give something else, and compare equal

In: a variant and its cases.  Out: the lines that the cases run, and for each mutant its outcome.
Cases that run its line are tried, the most telling first.  Where the first few do not see it, every
case is run, as far as the time goes.

The function that has an error is given the code that is compiled from the wrong text.  Models are
not copied: at another address kernels may add in another order, and differences of one rounding
would look like an error where there is none.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import gc
import hashlib
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel, set_seed

from patchgen.author.declare.registry import find_part_checks
from patchgen.syntax.errors import describe_error
from patchgen.system import limited
from patchgen.verifying.case_runner import CHECKS
from patchgen.verifying.cases import COSTS, order_cases, select_cases
from patchgen.verifying.checks.context import Case, CheckContext, NothingToCompare
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.models.build import build_variant
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.mutation.lines import (
    RAN,
    FlatText,
    compiler_watched,
    find_executable_lines,
    find_import_lines,
    instrument,
    iterate_codes,
    read_flat_text,
    refusals,
)
from patchgen.verifying.mutation.mutations import Mutant, drawn, make_mutants
from patchgen.verifying.observe.step import kept
from patchgen.verifying.parts.part_check import Route
from patchgen.verifying.report import LinesRun, MutantResult, Result
from patchgen.verifying.variants import Plan, Variant

_Key = tuple[str, int]  # the qualified name of a function, and the line where it begins


@dataclass(frozen=True)
class LoadedModule:
    """A module, its text, and every function that was made of it."""

    module: ModuleType
    text: str
    functions: dict[_Key, list[FunctionType]]


def find_functions(module: ModuleType, text: str) -> LoadedModule:
    """The module with every function object that runs its code, also decorated and bound ones."""
    # `gc` leaves out what was frozen, which may be all that was imported first.
    values = [*gc.get_objects(), *vars(module).values()]
    for value in vars(module).values():
        if isinstance(value, type):
            values += vars(value).values()
    functions: dict[_Key, list[FunctionType]] = defaultdict(list)
    seen: set[int] = set()
    for value in values:  # which grows meanwhile
        if type(value) not in (FunctionType, classmethod, staticmethod) or id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "__wrapped__"):
            values.append(value.__wrapped__)
        if type(value) is FunctionType and value.__code__.co_filename == module.__file__:
            functions[_key(value.__code__)].append(value)
    return LoadedModule(module, text, functions)


@contextmanager
def plant_mutant(original: LoadedModule, mutant: Mutant) -> Iterator[None]:
    """A context in which the module has the error."""
    module_code = compile(
        mutant.text(original.text), str(original.module.__file__), "exec", dont_inherit=True
    )
    wrong = None
    for code in iterate_codes(module_code):
        if code.co_qualname == mutant.function and code.co_firstlineno <= mutant.line:
            wrong = code  # the last that begins above the error
    if wrong is None:
        raise LookupError(f"{mutant.function} is not compiled")
    if _key(wrong) not in original.functions:
        raise LookupError(f"no function is made of {mutant.function}")
    with swapped(original, [wrong]):
        yield


@contextmanager
def swapped(original: LoadedModule, codes: list[CodeType]) -> Iterator[None]:
    """A context in which the functions of these names and lines run `codes` instead."""
    swaps = []
    for code in codes:
        for function in original.functions.get(_key(code), ()):
            swaps.append((function, function.__code__, _with_cells_of(function, code)))
    _forget(original.module)
    for function, _, code in swaps:
        function.__code__ = code
    try:
        yield
    finally:
        for function, code, _ in swaps:
            function.__code__ = code
        _forget(original.module)


def _with_cells_of(function: FunctionType, code: CodeType) -> CodeType:
    """`code` for a function whose cells stay: without its only `super()` it reads no `__class__`.

    Raises LookupError where it reads some of them, whose numbers would be others.
    """
    cells = function.__code__.co_freevars
    if not code.co_freevars:
        return code.replace(co_freevars=cells)
    if code.co_freevars != cells:
        raise LookupError(f"{code.co_qualname} reads other names of the functions around it")
    return code


@contextmanager
def watched(original: LoadedModule, codes: list[CodeType]) -> Iterator[set[int]]:
    """A context that gives the lines that run inside it, by `codes` that note them.

    Without `codes`, those that torch.compile reads.
    """
    names = vars(original.module)
    names[RAN] = lines_run = set[int]()
    try:
        with swapped(original, codes), compiler_watched(str(original.module.__file__), lines_run):
            yield lines_run
    finally:
        del names[RAN]


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno


def _forget(module: ModuleType) -> None:
    """Empty the caches of the module's functions: they hold what other code gave."""
    for each in vars(module).values():
        clear = getattr(each, "cache_clear", None)
        if callable(clear) and getattr(each, "__module__", "") == module.__name__:
            clear()


@dataclass(frozen=True)
class MutatedPair(Pair):
    """`original` with an error in its module; `is_built_anew` where building a model runs it."""

    original: Pair = field(kw_only=True)
    is_built_anew: bool = field(kw_only=True)
    loans: ExitStack = field(kw_only=True)  # closing it restores the original pair's models

    @staticmethod
    def of(original: Pair, is_built_anew: bool, loans: ExitStack) -> MutatedPair:
        own: Any = {each.name: getattr(original, each.name) for each in fields(Pair) if each.init}
        pair = MutatedPair(**own, original=original, is_built_anew=is_built_anew, loans=loans)
        # What is known of the parent stays true.
        for of_parent in ("_observations", "facts", "is_causal", "isolates_packed_texts"):
            if of_parent in vars(original):
                vars(pair)[of_parent] = vars(original)[of_parent]
        return pair

    def models(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0, *, fresh: bool = False
    ) -> tuple[PreTrainedModel, PreTrainedModel]:
        """The original pair's parent, and a variant that the error may spoil."""
        parent, variant = self.original.models(route, dtype, dropout)
        key = (route.name, dtype, dropout)
        if key not in self._models:
            with _disable_current_modes():  # no recording sees how a model is made
                if self.is_built_anew:
                    master = self.original.master(dtype, dropout)
                    variant = build_variant(master, self.variant_class, self.build, route)
                    variant = variant.to(self.device)
                else:
                    self.loans.enter_context(kept(variant))
                self._models[key] = parent, variant
        return copy.deepcopy(self._models[key]) if fresh else self._models[key]


# --- which cases see it

# Kinds whose verdict is a comparison, with no other error planted.
KINDS = COSTS.keys() | {"numbers", "interface", "norms"}
# The CPU time that a case may take with an error in it: the seconds, or so many times what it takes
# without, whichever is more.
SECONDS, TIMES = 4.0, 10
# So many cases only compare: most errors are seen in them.
FEW = 5

Answer = Literal["equal", "unequal", "nothing", "crash"]  # nothing: the model refuses the case


class TooSlow(Exception):
    """A case with the error does not end within its limit."""


@dataclass(frozen=True)
class CaseRun:
    """One case as the variant without an error runs it."""

    case: Case
    pair: Pair
    lines: frozenset[int]  # of the file
    seconds: float  # of the processor

    @functools.cached_property
    def digest(self) -> str:
        """Of what it gives; it has to be taken before an error is planted."""
        return digest_of(self.case, self.pair, math.inf)

    def gives_the_same(self, pair: Pair) -> bool:
        """Whether the variant of `pair`, with an error, gives the same bits as without."""
        return self.is_digested and self.digest == digest_of(self.case, pair, self.limit)

    @property
    def is_digested(self) -> bool:
        """Whether its digest was taken, and is of something."""
        return bool(vars(self).get("digest"))

    @property
    def limit(self) -> float:
        return max(SECONDS, TIMES * self.seconds)


def judged(case: Case, pair: Pair, seconds: float = SECONDS) -> tuple[Answer, str]:
    """The verdict of `case` on `pair`, and its words."""
    set_seed(0)  # some cases draw weights of their own
    try:
        with limited(seconds, TooSlow):
            verdict = CHECKS[case.kind](CheckContext(pair, case))
    except (NothingToCompare, CannotBuild) as reason:
        return "nothing", str(reason)
    except Exception as error:  # a model with an error may raise anything
        return "crash", describe_error(error, 200)
    if verdict.status != "FAIL":
        return "equal", ""
    is_crash = case.kind == "attention" and verdict.note.endswith("; declared")
    return "crash" if is_crash else "unequal", verdict.note


def digest_of(case: Case, pair: Pair, seconds: float = SECONDS) -> str:
    """The digest of what the variant gives, bit for bit; empty if it crashes or has none."""
    if case.kind not in ("numbers", "weights"):
        return ""
    set_seed(0)
    weighed = case.kind == "weights"
    view = CheckContext(pair, case).view(pair.weights_route if weighed else None, weights=weighed)
    try:
        with limited(seconds, TooSlow):
            observed = view.variant()
    except Exception:  # a model with an error may raise anything
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(observed.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@dataclass(frozen=True)
class MutationTest:
    """The changed lines of `variant`, the cases that run them, and errors in them."""

    variant: Variant
    pair_for: Callable[[Case], Pair]
    seconds: float = math.inf  # of the processor, for all cases of an error that few do not see
    alive: Callable[[], None] = lambda: None  # called between cases

    @functools.cached_property
    def flat(self) -> FlatText:
        return read_flat_text(self.variant)

    @functools.cached_property
    def runs(self) -> dict[str, CaseRun]:
        """The cases that were noted, by their names."""
        return {}

    @functools.cached_property
    def _loaded(self) -> LoadedModule:
        return find_functions(Pair(self.variant, self.variant.heads[0]).module, self.flat.text)

    @functools.cached_property
    def _noting(self) -> list[CodeType]:
        """What runs in place of the module's code, to note its lines."""
        return instrument(self.flat.text, str(self._loaded.module.__file__), self._can_run)

    # --- cases

    def cases(self, plan: Plan) -> Iterator[Case]:
        """The cases of a plan whose verdict is a comparison."""
        checks = find_part_checks(self.variant.checked_parts)
        return filter(self._compares, select_cases(self.variant, checks, plan))

    def _compares(self, case: Case) -> bool:
        if case.kind != "attention" or case.detail != "flex_attention":
            return case.kind in KINDS
        # Flex attention is compiled, which takes minutes where it is accepted.
        checks = find_part_checks(self.variant.checked_parts)
        return any(check.attentions is not None for check in checks)

    def note(self, case: Case, run: Callable[[Case], Result]) -> Result:
        """The result of `run`; where the case compares well, its lines are recorded."""
        watching: Any = contextlib.nullcontext(set())
        if self._compares(case):
            with contextlib.suppress(Exception):  # no import: the case itself fails with that
                noting = [] if case.kind == "compiled" else self._noting
                watching = watched(self._loaded, noting)
        begun = time.process_time()
        with watching as lines:
            result = run(case)
        if self._compares(case) and result.status in ("PASS", "WARN"):
            seconds = time.process_time() - begun
            self.runs[case.name] = CaseRun(case, self.pair_for(case), frozenset(lines), seconds)
        return result

    def watch(self, case: Case) -> None:
        """Record which lines run in `case`, if it was not noted and compares something."""

        def run(case: Case) -> Result:
            answer, note = judged(case, self.pair_for(case), seconds=math.inf)
            return Result("", case.name, "PASS" if answer == "equal" else "NONE", note=note)

        if case.name not in self.runs:
            with contextlib.suppress(Exception):  # no pair: the case itself has failed with it
                self.note(case, run)

    # --- lines

    @functools.cached_property
    def _built(self) -> Mapping[int, frozenset[int]]:
        """The lines that run while the model of each pair is built, by the pair's id."""
        built: dict[int, frozenset[int]] = {}
        for run in self.runs.values():
            pair = run.pair
            if id(pair) in built:
                continue
            built[id(pair)] = frozenset()
            # As the cases build it: a mixture's configuration has settings that the parent's lacks.
            with contextlib.suppress(CannotBuild):  # each case has said so
                parent = pair.master(torch.float32)
                with watched(self._loaded, self._noting) as lines:
                    build_variant(parent, pair.variant_class, pair.build, pair.routes[0])
                built[id(pair)] = frozenset(lines)
        return built

    @property
    def built_lines(self) -> frozenset[int]:
        """The lines that run while any model is built."""
        return frozenset().union(*self._built.values())

    @functools.cached_property
    def _can_run(self) -> frozenset[int]:
        """The changed lines that have code."""
        return self.flat.changed & find_executable_lines(self.flat.text, self.flat.name)

    def lines_run(self) -> LinesRun:
        """Which of the changed lines the cases run, and which of the others only refuse."""
        flat = self.flat
        imported = find_import_lines(flat.text, flat.name)
        missed = sorted(self._can_run - imported - self._ran)
        refusing = refusals(ast.parse(flat.text))
        not_run: list[tuple[int, str]] = []
        only_refuse: list[tuple[int, str]] = []
        for line in missed:
            numbered = line, flat.line(line).strip()
            (only_refuse if line in refusing else not_run).append(numbered)
        return LinesRun(
            file=flat.name,
            changed=len(self._can_run),
            ran=len(self._can_run) - len(missed),
            not_run=tuple(not_run),
            refusals=tuple(only_refuse),
            mutants=len(self._reached_mutants),
            unplanted=len(self._all_mutants) - len(self._reached_mutants),
        )

    # --- mutants

    @functools.cached_property
    def _all_mutants(self) -> tuple[Mutant, ...]:
        return make_mutants(self.flat.text, self.flat.changed)

    @functools.cached_property
    def _ran(self) -> frozenset[int]:
        return self.built_lines.union(*(run.lines for run in self.runs.values()))

    @functools.cached_property
    def _reached_mutants(self) -> tuple[Mutant, ...]:
        return tuple(each for each in self._all_mutants if each.touches(self._ran))

    def mutants(self, number: int | None) -> tuple[tuple[Mutant, ...], Iterator[Mutant]]:
        """A sample of `number` of those whose lines ran (None: all), and those that come next."""
        reached = self._reached_mutants
        ranked = drawn(reached, self.flat.text, self.variant.name)
        chosen = set(ranked[:number])
        return tuple(each for each in reached if each in chosen), iter(ranked[len(chosen) :])

    def unseen(self, mutant: Mutant) -> MutantResult:
        """The result of `mutant` before any case has run with it."""
        text = self.flat.text
        place = f"{self.flat.name}:{mutant.line}"
        diff = mutant.diff(text)
        digest = mutant.digest(text)
        return MutantResult(place, mutant.function, mutant.says, diff, "unseen", digest=digest)

    def run_mutant(self, mutant: Mutant) -> MutantResult:
        """Plant `mutant`, run the cases that reach it, and return its outcome."""
        result = self.unseen(mutant)
        runs = self._find_runs(mutant)
        if not runs:
            return replace(result, note="no case runs its line")
        is_built_anew = mutant.touches(self.built_lines)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                begun = time.process_time()
                # The digests are taken now, before the error is there, as far as the time goes.
                for run in runs:
                    if run.digest and time.process_time() - begun > self.seconds:
                        break
                with plant_mutant(self._loaded, mutant), ExitStack() as loans:
                    return self._run_cases(result, runs, is_built_anew, loans)
            except Exception as error:  # the text with the error is no module
                note = f"{type(error).__name__}: {error}"[:200]
                return replace(result, outcome="crashed", note=note)

    def _find_runs(self, mutant: Mutant) -> list[CaseRun]:
        """The cases that run its line; compiled ones only where nothing else does."""
        runs = []
        for run in self.runs.values():
            if mutant.touches(run.lines | self._built[id(run.pair)]):
                runs.append(run)
        return self._ordered([run for run in runs if run.case.kind != "compiled"] or runs)

    def _ordered(self, runs: Sequence[CaseRun]) -> list[CaseRun]:
        """A few that tell most, the first of each kind and head, effects, then as they tell."""
        paths = [run.lines & self._can_run for run in runs]
        telling, rest = order_cases([run.case for run in runs], paths)
        ordered = [runs[at] for at in (*telling, *rest)]
        sooner: list[CaseRun] = []
        later: list[CaseRun] = []
        met: set[str] = set()
        for place, run in enumerate(ordered):
            kind_and_head = {run.case.kind, run.case.head}
            is_first = not kind_and_head <= met
            met |= kind_and_head
            if place < FEW or is_first or run.case.kind == "effect":
                sooner.append(run)
            else:
                later.append(run)
        return sooner + later

    def _run_cases(
        self,
        result: MutantResult,
        runs: Sequence[CaseRun],
        is_built_anew: bool,
        loans: ExitStack,
    ) -> MutantResult:
        """The outcome: does a case compare unequal, or at least give something else?"""
        differ = 0
        begun = time.process_time()
        tried = 0
        pairs: dict[int, Pair] = {}
        for run in runs:
            self.alive()
            if id(run.pair) not in pairs:
                pairs[id(run.pair)] = MutatedPair.of(run.pair, is_built_anew, loans)
            pair = pairs[id(run.pair)]
            if tried >= FEW:
                if time.process_time() - begun > self.seconds:
                    break
                if run.gives_the_same(pair):
                    tried += 1
                    continue
            answer, note = judged(run.case, pair, run.limit)
            tried += 1
            if answer == "unequal":
                return replace(result, outcome="seen", note=run.case.name, cases=tried)
            if answer == "crash":
                note = f"{run.case.name}: {note}"
                return replace(result, outcome="crashed", note=note, cases=tried)
            has_changed = run.is_digested and not run.gives_the_same(pair)
            differ += has_changed or answer == "nothing"
        if differ:
            note = f"{tried} cases ran it; {differ} of them compute something else"
            return replace(result, note=note, cases=tried)
        return replace(result, outcome="no difference", note=f"in {tried} cases", cases=tried)
