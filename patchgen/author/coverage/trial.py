"""The numeric pass of one part in one model: convert, build a tiny model, verify, plant errors.

Takes a `Structural` that was written, and an empty folder; returns its `Entry`.  Everything
that the code of the model prints or raises is caught here.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from patchgen.author.coverage.book import Entry
from patchgen.author.coverage.structure import Structural, flat_in
from patchgen.compiler.flat import FlatFile
from patchgen.project.lock import Record
from patchgen.project.outcome import variant_diff
from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases.case import Case
from patchgen.verify.cases.select import select_cases
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.build import silence_progress
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.evidence import gather_evidence
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.parts.scenario import Scenario
from patchgen.verify.report.result import Result
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant, describe_variant, find_towers

PACKAGE = "covered"  # what outputs of this pass are imported from
HEADS = 4  # classes, of those that run what the part changes, that are tried until one is built
# The largest difference in float64, relative to the largest entry of a tensor.  It is far above the
# rounding errors of the worst tiny model (1e-12), and far below the smallest planted error.
WIDE = 1e-10
# Cases in float32: full and padded rows, against the nearest and another computation of the
# parent.
SHORT = ("full closest", "right closest", "full independent")


def tried(found: Structural, home: Path) -> Entry:
    """The entry that results."""
    begun = time.monotonic()
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    with silence_progress():
        entry = _tried(found, home)
    return replace(entry, key=found.entry.key, seconds=round(time.monotonic() - begun, 1))


def _tried(found: Structural, home: Path) -> Entry:
    flat = flat_in(home, found)
    if flat.problems:
        first = min(flat.problems)
        return Entry("refused", f"by the converter: {first.at}: {first.code} {first.what}")
    for file in flat.files:  # a new model has a configuration of its own
        _write(home, found, file)
    variant = _subject(found, next(file for file in flat.files if file.kind == "modeling"), home)
    try:
        importlib.import_module(variant.parent)
    except ImportError as error:
        return Entry("cannot be built here", f"needs {error.name or error}")
    return _verified(variant, found)


def _write(home: Path, found: Structural, file: FlatFile) -> None:
    output = home / PACKAGE / found.task.model / file.name
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(file.text, encoding="utf-8")
    if file.diff_base is not None:  # what it changes without a part is read from there
        output.with_suffix(".diff").write_text(variant_diff(file), encoding="utf-8")


def _subject(found: Structural, file: FlatFile, home: Path) -> Variant:
    """The output as a variant that can be imported."""
    output = Path(PACKAGE, found.task.model, file.name)
    record = Record(
        output.as_posix(), found.task.modular.as_posix(), "", "", "", "", "", file.parents, ()
    )
    return describe_variant(record, home)


@dataclass(frozen=True, slots=True)
class _HeadTrial:
    """The results of the cases of one class."""

    head: str
    results: tuple[Result, ...] = ()
    missing: str = ""  # why it cannot be built, or shows nothing
    is_reached: bool = True  # its inputs run a layer that the part changes
    base: bool = False  # it stands beside a head, in which errors are planted

    @property
    def failed(self) -> Result | None:
        return next((result for result in self.results if result.status == "FAIL"), None)

    @property
    def seen(self) -> tuple[str, ...]:
        """The planted errors that a case noticed."""
        return tuple(
            result.case.partition("planted: ")[2]
            for result in self.results
            if "planted: " in result.case and result.status == "PASS"
        )


def _verified(variant: Variant, found: Structural) -> Entry:
    own = _heads(variant, found)
    if found.task.part == "loss":  # each head has a loss of its own
        return _entry([_of_head(variant, head, found) for head in own])
    trials: list[_HeadTrial] = []
    for head in own:
        trials.append(_of_head(variant, head, found))
        if not trials[-1].missing:
            # A decoder's head on an encoder's layers says nothing of the encoder.
            base = _base(own, [one.head for one in trials])
            trials += [_of_head(variant, name, found, base=True) for name in base]
            break
        if sum(one.is_reached for one in trials) == HEADS:
            break
    return _entry(trials)


def _base(heads: Sequence[str], tried: Sequence[str]) -> list[str]:
    """The model without a head, unless it was tried."""
    found = [name for name in heads if name.endswith("Model") and "LMHead" not in name]
    return [name for name in found[:1] if name not in tried]


def _heads(variant: Variant, found: Structural) -> tuple[str, ...]:
    """The classes that show the part: for loss those that it changes, else the main one first."""
    text = Path(variant.home, variant.module.replace(".", "/") + ".py").read_text(encoding="utf-8")
    own = [name for name in variant.heads if f"\nclass {name}(" in text]
    if found.task.part == "loss":
        return tuple(name for name in own if name in found.declared)
    # Its rows are no texts, so that attention runs over lengths of its own.
    own = sorted(own, key=lambda name: name.endswith("ForMultipleChoice"))
    return (*own, *find_towers(text))


def _entry(trials: list[_HeadTrial]) -> Entry:
    built = [one for one in trials if not one.missing]
    for one in built:
        if one.failed is not None:
            return Entry("failed", f"{one.failed.case}: {one.failed.note}")
    if not built:
        reasons = dict.fromkeys(one.missing for one in trials)
        return Entry("cannot be built here", "; ".join(reasons) or "needs a public class")
    for one in built:
        # Without an error that was found, nothing shows that the part ran.
        if not one.seen and not one.base:
            return Entry("cannot be built here", _unreached(one.head))
    seen = tuple(dict.fromkeys(name for one in built for name in one.seen))
    others = "; ".join(f"{one.head}: {one.missing}" for one in trials if one.missing)
    return Entry("verified", others, heads=tuple(one.head for one in built), seen=seen)


def _of_head(variant: Variant, head: str, found: Structural, *, base: bool = False) -> _HeadTrial:
    """The cases of the short plan, up to the first that fails; fewer for a `base` beside a head."""
    if missing := _missing(variant, head):
        return _HeadTrial(head, missing=missing)
    if not _is_reached(Pair(variant, head), found.declared):
        return _HeadTrial(head, missing=_unreached(head), is_reached=False)
    alone = replace(variant, heads=(head,))
    bench, results = CaseRunner(alone), []
    for case in _short(alone, found.task.part):
        if base and case.kind != "numbers":
            continue
        result = _decided(bench, case)
        if case.kind == "planted" and result.status == "FAIL" and _changes_nothing(bench, case):
            continue
        results.append(result)
        if result.status == "FAIL":
            break
    return _HeadTrial(head, tuple(results), base=base)


def _decided(bench: CaseRunner, case: Case) -> Result:
    """The result of `case`; if it fails in float32, the result of the same case in float64.

    A rounding error is smaller in float64, and a real difference is not.
    """
    result = bench.run(case)
    if (
        result.status != "FAIL"
        or case.kind != "numbers"
        or result.difference is None
        or not result.difference < 1
    ):
        return result
    wide = bench.run(replace(case, dtype="float64", name=case.name.replace("float32", "float64")))
    if wide.difference is not None and wide.difference <= WIDE:
        return replace(wide, status="PASS", bound=WIDE)
    return result


def _changes_nothing(bench: CaseRunner, case: Case) -> bool:
    """Whether the planted error changes no bit of the result: it is no error in this class."""
    pair, name = bench.pair(case), case.detail.partition(":")[2]
    planted_error = next(
        planted_error
        for check in pair.part_checks
        for planted_error in check.planted_errors
        if planted_error.name == name
    )
    route = pair.routes[0]
    observed = []
    for planted in (planted_error.apply, lambda model: nullcontext()):
        _, variant = pair.models(route, torch.float32, planted_error.scenario.dropout, fresh=True)
        with planted(variant):
            observed.append(
                pair.observe_variant(route, torch.float32, planted_error.scenario, model=variant)
            )
    one, other = observed
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _missing(variant: Variant, head: str) -> str:
    """Why the parent itself cannot be built or run here."""
    try:
        pair = Pair(variant, head)
        parent = pair.master(torch.float32)
        observe_step(
            parent, pair.inputs(Scenario(), torch.float32), Scenario(), checkpointing=False
        )
    except CannotBuild as reason:
        return f"needs {_needed(str(reason))}"
    except ImportError as error:
        return f"needs {error.name or _library(str(error))}"
    except Exception as error:  # whatever a model of transformers raises
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        return f"needs a tiny configuration or inputs that {head} runs with ({message})"
    return ""


def _is_reached(pair: Pair, declared: Sequence[str]) -> bool:
    """Whether a step of the variant runs one of the layers among the `declared` classes.

    A model of images and text that is given text alone does not run its image layers.
    """
    module = sys.modules[pair.variant_class.__module__]
    classes = [getattr(module, name, object) for name in declared]
    layers = tuple(
        each
        for each in classes
        if issubclass(each, nn.Module) and not issubclass(each, PreTrainedModel)
    )
    if not layers:
        return True
    try:
        _, variant = pair.models(pair.routes[0], torch.float32)
        with gather_evidence(variant) as evidence:
            inputs = pair.inputs(Scenario(), torch.float32)
            observe_step(variant, inputs, Scenario(), checkpointing=False)
    except Exception:  # the cases tell what fails
        return True
    # By what runs inside: SqueezeBERT calls `layer.forward`, and no hook of the layer sees it.
    return any(isinstance(module, layers) for path in evidence.paths for module in path)


def _unreached(head: str) -> str:
    return f"needs inputs of {head} that reach what the part changes"


def _library(error: str) -> str:
    """The package that transformers says is not installed."""
    found = re.search(r"requires the (\S+) library", error)
    return found[1] if found else " ".join(error.split())[:120]


def _needed(reason: str) -> str:
    return (
        reason.removeprefix("needs ")
        if reason.startswith("needs ")
        else f"more than this pass has: {reason}"
    )


def _short(variant: Variant, part: str) -> Iterator[Case]:
    """Effects, loading and the usual rows; then each planted error, and the same without it."""
    part_checks, head = find_part_checks(variant.checked_parts), variant.heads[0]
    for case in select_cases(variant, part_checks, Plan(dtypes=("float32",))):
        if case.changes or case.dtype != "float32":
            continue
        if case.kind in ("effect", "checkpoints", "planted") or case.name.endswith(SHORT):
            yield case
        elif (
            part == "checkpoint"
            and case.kind == "numbers"
            and case.scenario.checkpointing is not None
        ):
            yield case
    planted = {
        repr(planted_error.scenario): planted_error
        for check in part_checks
        for planted_error in check.planted_errors
    }
    for planted_error in planted.values():
        yield Case(
            f"{head} float32 without: {planted_error.name}",
            "numbers",
            head,
            scenario=planted_error.scenario,
        )
