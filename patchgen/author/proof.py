"""Verify what was written: a tiny model beside its parent, and errors that are planted in it.

Takes a draft; returns a `Proof`.  The code of the model runs, and prints what it prints.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from patchgen import disk
from patchgen.author.anatomy.code import names
from patchgen.author.declare.registry import PARTS, find_part_checks
from patchgen.author.declare.variant import Draft, flatten_draft
from patchgen.project.lock import Record, marks_of
from patchgen.project.outcome import variant_diff
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.checks.context import Case
from patchgen.verifying.inputs.arguments import PLACED, CannotBuild
from patchgen.verifying.models.build import silence_progress
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.mutation.prove import MutationTest
from patchgen.verifying.observe.evidence import gather_evidence
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.combine import training_scenario
from patchgen.verifying.parts.part_check import Observation, Plant, PlantedError, Scenario
from patchgen.verifying.report import Result
from patchgen.verifying.variants import CODE, Plan, Variant, describe_variant, find_towers

PACKAGE = "proved"  # outputs are imported from it
HEADS = 4  # classes, of those that run what the part changes, that are tried until one is built
# The largest difference in float64, relative to the largest entry of a tensor.  It is far above the
# rounding errors of the worst tiny model (1e-12), and far below the smallest planted error.
WIDE = 1e-10
# Cases in float32: full and padded rows, against the nearest and another way of the parent.
NARROW = "bfloat16 full closest"
AUTOCAST = " float32 autocast"
SHORT = ("full closest", "right closest", "full independent")
# Of the processor: for the small errors that are tried, until one is seen; for one of them, in all
# cases after the first few.
SECONDS, SECONDS_EACH = 8.0, 1.0
# What stands in a text: the layers of images run where there are some.
WITHOUT_AND_WITH = ((), *((kind,) for kind in PLACED))
UNREACHED = "needs inputs of {head} that reach what the part changes"


@dataclass(frozen=True, slots=True)
class Proof:
    """`heads` are the verified classes, `seen` effects and planted errors found in them.

    `unreached` are parts of a sum whose layers run in none of these classes.
    """

    status: Literal["verified", "cannot be built here", "failed"]
    why: str = ""
    heads: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    modules: tuple[str, str] = ("", "")  # of the variant and of its parent, both imported

    def classes(self, parts: Collection[str]) -> tuple[type[PreTrainedModel], ...]:
        """The variant's class and its parent's in which a gain of `parts` is counted.

        A part of the layers is counted in the base model: the logits of a default configuration,
        whose layers may be narrower than those of any checkpoint, would hide what it saves.
        """
        of_heads = any(PARTS[name].of_heads for name in parts)
        head = self.heads[0] if of_heads else self.heads[-1]
        ours, theirs = (getattr(sys.modules[name], head) for name in self.modules)
        return ours, theirs


@dataclass(frozen=True, slots=True)
class _Trial:
    """The results of the cases of one class; `missing` is why it shows nothing.

    `unreached` are parts whose layers do not run in it.  `errors`: whether errors are planted.
    """

    head: str
    results: tuple[Result, ...] = ()
    missing: str = ""
    runs_the_part: bool = True
    unreached: tuple[str, ...] = ()
    errors: bool = True
    error: str = ""  # one that was put into a line of the part, and seen

    @property
    def seen(self) -> list[str]:
        told = re.compile(r".* (?:planted: (.+)|(effect of .+))")
        named = (told.fullmatch(result.case) for result in self.results if result.status == "PASS")
        told_of = [match[1] or match[2] for match in named if match]
        return [*told_of, self.error] if self.error else told_of


def prove(draft: Draft, home: Path) -> Proof:
    """What verifying `draft` gives, in a project in the empty folder `home`."""
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    flat = flatten_draft(draft, home)
    for file in flat.files:  # a new model has a configuration of its own
        output = home / PACKAGE / draft.alias / file.name
        disk.write(output, file.text, home, lasting=False)
        if file.diff_base is not None:  # what it changes without a part is read from there
            disk.write(output.with_suffix(".diff"), variant_diff(file), home, lasting=False)
    file = next(file for file in flat.files if file.kind == "modeling")
    output = home / PACKAGE / draft.alias / file.name
    place = output.relative_to(home).as_posix()
    record = Record(place, draft.place.as_posix(), "", "", "", "", "", marks_of(file.parents))
    variant = describe_variant(record, home)
    try:
        importlib.import_module(variant.parent)
    except ImportError as error:
        return Proof("cannot be built here", f"needs {error.name or error}")
    with silence_progress():
        proof = _judged([*_trials(variant, draft, file.text)])
    return replace(proof, modules=(variant.module, variant.parent))


def _trials(variant: Variant, draft: Draft, text: str) -> Iterator[_Trial]:
    heads = [name for name in variant.heads if f"\nclass {name}(" in text]
    if all(PARTS[name].of_heads for name in draft.parts):
        for head in heads:
            if head in draft.declared:
                yield _of_head(variant, head, draft)
        return
    bases = [name for name in heads if name.endswith("Model") and "LMHead" not in name]
    bases.sort(key=lambda name: name not in draft.declared)
    sparing = [mixin for name in draft.parts for mixin in PARTS[name].spares]

    def rank(name: str) -> tuple[bool, bool]:
        is_spared = any(f"class {name}({mixin}, " in draft.text for mixin in sparing)
        # Rows of multiple choice are no texts: attention then runs over lengths of its own.
        # A head that a part changes shows more than one beside it: Whisper's decoder has the loss.
        is_changed = name in draft.declared and name not in bases
        return is_spared or name.endswith("ForMultipleChoice"), not is_changed

    heads.sort(key=rank)
    tried: list[str] = []
    for head in (*heads, *find_towers(text)):
        trial = _of_head(variant, head, draft)
        if trial.runs_the_part:
            tried.append(head)
        yield trial
        if not trial.missing:
            # A decoder's head on an encoder's layers says nothing of the encoder.
            if bases and bases[0] not in tried:
                yield _of_head(variant, bases[0], draft, errors=False)
            return
        if len(tried) == HEADS:
            return


def _judged(trials: Sequence[_Trial]) -> Proof:
    shown = [trial for trial in trials if not trial.missing]
    for trial in shown:
        for result in trial.results:
            if result.status == "FAIL":
                return Proof("failed", f"{result.case}: {result.note}")
    if not shown:
        reasons = dict.fromkeys(trial.missing for trial in trials)
        return Proof("cannot be built here", "; ".join(reasons) or "needs a public class")
    seen: list[str] = []
    for trial in shown:
        # Without its effect or an error that was found, nothing shows that the part ran.
        if not trial.seen and trial.errors:
            return Proof("cannot be built here", UNREACHED.format(head=trial.head))
        seen += trial.seen
    others = "; ".join(f"{trial.head}: {trial.missing}" for trial in trials if trial.missing)
    heads = tuple(trial.head for trial in shown)
    unreached = set.intersection(*(set(trial.unreached) for trial in shown))
    return Proof("verified", others, heads, tuple(dict.fromkeys(seen)), tuple(sorted(unreached)))


def _of_head(variant: Variant, head: str, draft: Draft, *, errors: bool = True) -> _Trial:
    """The cases of the short plan, up to the first that fails; numbers alone without `errors`."""
    if missing := _missing(variant, head):
        return _Trial(head, missing=missing)
    for in_text in WITHOUT_AND_WITH:
        variant = replace(variant, in_text=in_text)
        pair = Pair(variant, head)
        ran = _layers_that_run(pair)
        # What makes the parent itself fail reaches nothing.
        if (ran is not None or not in_text) and _reaches(ran, pair, draft.declared):
            break
    else:
        return _Trial(head, missing=UNREACHED.format(head=head), runs_the_part=False)
    classes = _classes_of_parts(draft.text)
    unreached = tuple(part for part in classes if not _reaches(ran, pair, classes[part]))
    parts = tuple(part for part in variant.parts if part not in unreached)
    alone = replace(variant, heads=(head,), parts=parts)
    runner = CaseRunner(alone)
    results: list[Result] = []
    numbers: list[Result] = []
    mutation = MutationTest(alone, runner.pair, SECONDS_EACH)
    for case in _short(alone):
        if not errors and case.kind != "numbers":
            continue
        result = mutation.note(case, partial(_decided, runner))
        if result.status == "FAIL" and case.kind == "planted" and _changes_nothing(runner, case):
            continue
        results.append(result)
        if result.status == "FAIL":
            return _Trial(head, tuple(results), errors=errors)
        if case.kind == "numbers":
            numbers.append(result)
    if numbers and all(result.status == "NONE" for result in numbers):
        return _Trial(head, missing=f"needs numbers of {head}: {numbers[0].note}")
    is_planted = any(result.case.partition(" planted: ")[1] for result in results)
    error = _find_an_error(mutation) if errors and not is_planted else ""
    return _Trial(head, tuple(results), unreached=unreached, errors=errors, error=error)


def _find_an_error(mutation: MutationTest) -> str:
    """The first small error in the lines of the part that the cases see; "" if they see none.

    Parts that change no number, such as checkpointing, have no such error.
    """
    _, errors = mutation.mutants(0)
    begun = time.process_time()
    for error in errors:
        if time.process_time() - begun > SECONDS:
            break
        fate = mutation.run_mutant(error)
        if fate.outcome == "seen":
            return f"an error in {error.function}: {error.says}"
    return ""


def _decided(runner: CaseRunner, case: Case) -> Result:
    """The result; where float32 is not enough, that of the same case in float64.

    A rounding error is smaller in float64, and a real difference is not.
    """
    result = runner.run(case)
    near = result.difference is not None and result.difference < 1
    if result.status == "FAIL" and case.kind == "numbers" and near:
        name = case.name.replace("float32", "float64")
        wide = runner.run(replace(case, dtype="float64", name=name))
        if wide.difference is not None and wide.difference <= WIDE:
            return replace(wide, status="PASS", bound=WIDE)
    return result


def _changes_nothing(runner: CaseRunner, case: Case) -> bool:
    """Whether the planted error changes nothing but rounding: it is no error in this class."""
    pair = runner.pair(case)
    name = case.detail.partition(":")[2]
    planted: list[PlantedError] = []
    for check in pair.part_checks:
        planted += check.planted_errors
    error = next(error for error in planted if error.name == name)
    wrong = _observe_in_float64(pair, error.scenario, error.apply)
    right = _observe_in_float64(pair, error.scenario, lambda model: nullcontext())
    if wrong.keys() != right.keys():
        return False
    return all(torch.allclose(wrong[key], right[key], WIDE, WIDE) for key in wrong)


def _observe_in_float64(pair: Pair, scenario: Scenario, plant: Plant) -> Observation:
    route = pair.routes[0]
    _, variant = pair.models(route, torch.float64, scenario.dropout, fresh=True)
    with plant(variant):
        return pair.observe_variant(route, torch.float64, scenario, model=variant)


def _missing(variant: Variant, head: str) -> str:
    """Why the parent itself cannot be built or run here."""
    try:
        pair = Pair(variant, head)
        inputs = pair.inputs(Scenario(), torch.float32)
        observe_step(pair.master(torch.float32), inputs, Scenario(), checkpointing=False)
    except CannotBuild as reason:
        text = str(reason)
        return text if text.startswith("needs ") else f"needs more than this pass has: {text}"
    except ImportError as error:
        library = re.search(r"requires the (\S+) library", str(error))
        return f"needs {error.name or (library[1] if library else error)}"
    except Exception as error:  # whatever a model of transformers raises
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        return f"needs a tiny configuration or inputs that {head} runs with ({message})"
    return ""


def _layers_that_run(pair: Pair) -> frozenset[type[nn.Module]] | None:
    """The classes of all modules that a step of the variant runs; None where it fails.

    By what runs inside: SqueezeBERT calls `layer.forward`, and no hook of the layer sees it.
    """
    try:
        _, variant = pair.models(pair.routes[0], torch.float32)
        with gather_evidence(variant) as evidence:
            inputs = pair.inputs(Scenario(), torch.float32)
            observe_step(variant, inputs, Scenario(), checkpointing=False)
    except Exception:  # the cases tell what fails
        return None
    ran = set[type[nn.Module]]()
    for path in evidence.paths:
        ran.update(map(type, path))
    return frozenset(ran)


def _reaches(ran: frozenset[type[nn.Module]] | None, pair: Pair, declared: Sequence[str]) -> bool:
    """Whether one of the layers among the `declared` classes ran, or a model where none is a layer.

    A model of images and text that is given text alone does not run its image layers.
    """
    module = sys.modules[pair.variant_class.__module__]
    classes = [getattr(module, name, object) for name in declared]
    modules = [kind for kind in classes if issubclass(kind, nn.Module)]
    layers = [kind for kind in modules if not issubclass(kind, PreTrainedModel)]
    # CSM has two decoders, and `flash` changes the model of one of them alone.
    changed = tuple(layers or modules)
    return ran is None or not changed or any(issubclass(kind, changed) for kind in ran)


def _classes_of_parts(modular: str) -> dict[str, list[str]]:
    """The classes of a modular file that take code of a part, by that part."""
    part_of: dict[str, str] = {}
    classes: dict[str, list[str]] = defaultdict(list)
    for node in ast.parse(modular).body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith(CODE):
                part = module.removeprefix(CODE).partition(".")[0]
                for alias in node.names:
                    part_of[alias.name] = part
            case ast.ClassDef():
                parts = {part_of[name] for name in names(node) & part_of.keys()}
                for part in parts:
                    classes[part].append(node.name)
    return classes


def _short(variant: Variant) -> Iterator[Case]:
    """Effects, loading and the usual rows; then each planted error, and the same without it."""
    checks = find_part_checks(variant.checked_parts)
    head = variant.heads[0]
    runs_again = training_scenario(checks).checkpointing is not None
    wide: tuple[str, ...] = SHORT
    if any(check.effect_scenario.autocast for check in checks):  # alike without it
        wide += (AUTOCAST,)
    for case in select_cases(variant, checks, Plan(dtypes=("float32", "bfloat16"))):
        if case.changes:
            continue
        recomputes = case.kind == "numbers" and case.scenario.checkpointing is not None
        is_first = case.kind in ("effect", "checkpoints", "planted") or case.name.endswith(wide)
        is_narrow = case.kind == "norms" or case.name.endswith(NARROW)
        by_each = case.kind == "interface" and case.scenario.rows == "left"
        if case.dtype == "bfloat16":
            is_wanted = is_narrow
        else:
            is_wanted = is_first or (runs_again and recomputes)
        if is_wanted or by_each:
            yield case
    errors = {}
    for check in checks:
        for error in check.planted_errors:
            errors[repr(error.scenario)] = error
    for error in errors.values():
        name = f"{head} float32 without: {error.name}"
        yield Case(name, "numbers", head, scenario=error.scenario)
