"""Run the cases of one variant, and say of what they fail.  Pairs are built once and kept.

A wrong scale in one attention changes nearly every tensor of a step.  Which of them differs most
says little; the first module that gives other outputs for equal inputs says all.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten_with_path
from transformers import PreTrainedModel

from patchgen.runtime.checkpointing import ChangedInPlace
from patchgen.syntax.errors import one_line
from patchgen.verifying.checks import interface, itself, numbers, running
from patchgen.verifying.checks.context import Case, CheckContext, NothingToCompare, Verdict
from patchgen.verifying.configs.read import read_of
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.oracle.judge import check_as_python
from patchgen.verifying.parts.part_check import DoesNotLoad
from patchgen.verifying.report import Result, Status
from patchgen.verifying.variants import DIFFERS, SETTING, Variant

# How each kind of case is decided.
CHECKS: Mapping[str, Callable[[CheckContext], Verdict]] = {
    "as Python runs it": check_as_python,
    "numbers": numbers.check_numbers,
    "planted": numbers.check_planted_error,
    "drops": numbers.check_dropout,
    "loss beside logits": numbers.check_loss_beside_logits,
    "norms": numbers.check_norms,
    "itself": itself.check_itself,
    "weights": interface.check_attention_weights,
    "cache": interface.check_cache,
    "generated": interface.check_generation,
    "attention": interface.check_attn_implementation,
    "interface": interface.check_interface,
    "effect": running.check_effect,
    "work": running.check_work,
    "choices": running.check_choices,
    "operators": running.check_operators,
    "compiled": running.check_compiled,
    "checkpoints": running.check_checkpoints,
    "fresh": running.check_initialization,
    "plans": running.check_plans,
}
# Kinds that hold the variant against itself: what its parent fails of too is no fault of its own.
WITHOUT_PARENT = frozenset({"cache", "compiled", "operators", "itself"})


@dataclass(frozen=True)
class CaseRunner:
    """Runs the cases of one variant on one device."""

    variant: Variant
    device: str = "cpu"
    seed: int = 0
    _pairs: dict[Any, Pair] = field(default_factory=dict, init=False, repr=False)

    def pair(self, case: Case) -> Pair:
        # Some values are dictionaries.
        key = (case.head, f"{case.changes!r}{' at its neutral point' if case.neutral else ''}")
        if key not in self._pairs:
            variant = self.variant
            changes = dict(case.changes)
            if case.neutral:
                values = dict(variant.equal_if).items()
                changes |= {n.removeprefix(SETTING): v for n, v in values if n.startswith(SETTING)}
                variant = replace(variant, differs=())
            self._pairs[key] = Pair(
                variant, case.head, self.device, changes, self.seed, is_neutral=case.neutral
            )
        return self._pairs[key]

    def run(self, case: Case) -> Result:
        begun = time.perf_counter()
        verdict = self._verdict(case)
        seconds = round(time.perf_counter() - begun, 3)
        return Result(self.variant.name, case.name, **asdict(verdict), seconds=seconds)

    def _verdict(self, case: Case) -> Verdict:
        pair: Pair | None = None
        try:
            pair = self.pair(case)
            self._require_compared(case, pair)
            verdict = CHECKS[case.kind](CheckContext(pair, case))
        except (NothingToCompare, CannotBuild, ChangedInPlace) as reason:
            return Verdict("NONE", str(reason))
        except Exception as error:  # a model raises what it likes
            if pair is None:
                return Verdict("FAIL", say_error(error))
            # A guessed value of an option that the variant adds, of which nothing is known.
            theirs = pair.parent_class.config_class()
            names = [name.split(".")[0] for name, _ in case.changes]
            if case.drawn and not all(hasattr(theirs, name) for name in names):
                return Verdict("NONE", f"refused: {say_error(error)}")
            verdict = Verdict("FAIL", say_error(error), cause=say_error(error, in_short=True))
        if verdict.status != "FAIL":
            return verdict
        is_variant = self.variant.module != self.variant.parent
        if is_variant and case.kind in WITHOUT_PARENT and _fails(case, pair.of_parent()):
            status: Status = "NONE" if case.kind == "itself" else "WARN"
            return Verdict(status, f"the parent fails of it too: {verdict.note}")
        return replace(verdict, cause=verdict.cause or _find_cause(case, pair))

    def _require_compared(self, case: Case, pair: Pair) -> None:
        """Raises NothingToCompare where the case compares what differs on purpose."""
        if case.kind in WITHOUT_PARENT or case.kind == "as Python runs it" or case.neutral:
            return
        mode = "training" if case.scenario.train else "eval"
        changed = [name for name, _ in case.changes]
        for name, why in self.variant.differs:
            if name == mode or name.removeprefix(SETTING) in changed:
                raise NothingToCompare(f"{name} differs on purpose: {why}")
        for name in changed:
            if name.rpartition(".")[2] in pair.own_settings:
                raise NothingToCompare(f"the parent has no setting {name}")


def _fails(case: Case, pair: Pair) -> bool:
    try:
        return CHECKS[case.kind](CheckContext(pair, case)).status == "FAIL"
    except (NothingToCompare, CannotBuild):
        return False
    except Exception:  # a model raises what it likes
        return True


# --- causes


def say_error(error: Exception, *, in_short: bool = False) -> str:
    """An error in a line, with its innermost place; in short without what differs by case."""
    words = one_line(error, 400)
    if isinstance(error, DoesNotLoad):
        return "" if in_short else words
    if in_short:
        words = re.split(r"[\[({'\"]", words)[0].strip()
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        if Path(place.tb_next.tb_frame.f_code.co_filename).name == "recorder.py":
            break  # it stands between the model and torch
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {words}{at}"


def _find_cause(case: Case, pair: Pair) -> str:
    """What many cases fail of: the module that computes something else, in words."""
    if case.kind not in ("numbers", "weights"):
        return ""
    route = pair.weights_route if case.kind == "weights" else pair.route(case.route)
    try:
        models = pair.models(route, getattr(torch, case.dtype), case.scenario.dropout)
        return _say_ties(*models) or _say_where(
            *models, pair, replace(case.scenario, checkpointing=None)
        )
    except Exception:  # a model raises what it likes, and the verdict has words of its own
        return ""


def _say_ties(*models: PreTrainedModel) -> str:
    """The first weight that one of both shares with another place, and the other does not."""
    ties: list[dict[str, str]] = []  # each parameter that has an earlier name, and that
    for model in models:
        first: dict[int, str] = {}
        named = model.named_parameters(remove_duplicate=False)
        earlier = {name: first.setdefault(id(parameter), name) for name, parameter in named}
        ties.append({name: origin for name, origin in earlier.items() if origin != name})
    theirs, ours = ties
    for name, origin in {**ours, **theirs}.items():
        if ours.get(name) != theirs.get(name):
            side, other = ("variant", "parent") if name in ours else ("parent", "variant")
            return f"`{name}` is `{origin}` in the {side}, and not in the {other}"
    return ""


# Relative to the largest entry: far above what sums round, and below any error.
CLOSE = {torch.float64: 1e-8, torch.float32: 1e-3}
COARSE = 5e-2
# Floating tensors by where they stand, and masks as what is visible.
Placed = dict[str, Tensor]


def _say_where(parent: PreTrainedModel, variant: PreTrainedModel, pair: Pair, scenario: Any) -> str:
    """The first module of both that computes other outputs from equal inputs, in words."""
    inputs = pair.inputs(scenario, variant.dtype)
    close = CLOSE.get(variant.dtype, COARSE)
    their_calls = _record_calls(parent, inputs, scenario)
    our_calls = _record_calls(variant, inputs, scenario)
    for name, (given, out) in our_calls.items():
        if name not in their_calls:
            continue
        their_given, their_out = their_calls[name]
        if not _are_close(given, their_given, close) or _are_close(out, their_out, close):
            continue
        of_class = type(variant.get_submodule(name)).__name__
        at = f" (`{name.rpartition('.')[2]}`)" if name else ""
        what = f"`{of_class}`{at} gives other values than the parent's for equal inputs"
        return f"{what}{_say_how_to_declare(of_class, pair)}"
    return ""


def _say_how_to_declare(of_class: str, pair: Pair) -> str:
    """Where a class is changed, which may be meant."""
    if of_class not in read_of(pair.variant).classes:
        return ""
    return f'; if that is meant, declare it: {DIFFERS} = {{"{of_class}": "why"}}'


def _record_calls(
    model: PreTrainedModel, inputs: Any, scenario: Any
) -> dict[str, tuple[Placed, Placed]]:
    calls: dict[str, tuple[Placed, Placed]] = {}

    def note(name: str, module: Any, given: Any, named: Any, out: Any) -> None:
        if name not in calls:
            calls[name] = _placed((given, named)), _placed(out)

    with ExitStack() as stack:
        for name, module in model.named_modules():
            hook = functools.partial(note, name)
            stack.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
        observe_step(model, inputs, scenario)
    return calls


def _placed(values: Any) -> Placed:
    leaves, _ = tree_flatten_with_path(values)
    placed: Placed = {}
    for path, tensor in leaves:
        if not isinstance(tensor, Tensor):
            continue
        is_floating = tensor.is_floating_point()
        if not is_floating and tensor.dtype != torch.bool:
            continue
        # Masks of the attention are compared by what they show.
        is_mask = tensor.dim() == 4 and tensor.shape[1] == 1
        placed[str(path)] = tensor > -1e4 if is_mask else tensor.clone()
    return placed


def _are_close(ours: Placed, theirs: Placed, close: float) -> bool:
    """Whether what both have is the same; masks are compared where both have one of a form."""
    our_masks, first = _masks_and_others(ours)
    their_masks, second = _masks_and_others(theirs)
    for mask, other in zip(our_masks, their_masks, strict=False):
        if mask.shape == other.shape and not mask.equal(other):
            return False
    pairs = [(first[path], second[path]) for path in first if path in second]
    if not pairs:
        pairs = list(zip(first.values(), second.values(), strict=False))
    for one, two in pairs:
        top = float(two.abs().max()) if two.numel() else 0.0
        bounds: Any = {"rtol": 0, "atol": close * top, "equal_nan": True}
        if one.shape != two.shape or not torch.allclose(one.double(), two.double(), **bounds):
            return False
    # Nothing in common is no evidence, unless neither side has anything.
    return bool(pairs) or not (first or second)


def _masks_and_others(placed: Placed) -> tuple[list[Tensor], dict[str, Tensor]]:
    masks: list[Tensor] = []
    others: dict[str, Tensor] = {}
    for path, tensor in placed.items():
        if tensor.dtype == torch.bool:
            masks.append(tensor)
        else:
            others[path] = tensor
    return masks, others
