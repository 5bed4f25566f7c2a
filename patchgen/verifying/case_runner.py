"""Run the cases of one variant, and find the cause of those that fail.

    a case              numbers of LlamaModel, right-padded
    its verdict         FAIL: logits differ by 3e-2
    its cause           `LlamaAttention` (`self_attn`) gives other values than the parent's ...

In: a `Case`.  Out: its `Result`.  A wrong scale in one attention changes nearly every tensor of a
step, so which of them differs most says little.  The first module that gives other outputs for
equal inputs says all: that is the cause.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path
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
        """The variant beside its parent, as `case` builds them; it is built once and kept."""
        # Not the changes themselves: some values are dictionaries.
        key = (case.head, f"{case.changes!r}{' at its neutral point' if case.neutral else ''}")
        if key not in self._pairs:
            variant = self.variant
            changes = dict(case.changes)
            if case.neutral:
                for name, value in dict(variant.equal_if).items():
                    if name.startswith(SETTING):
                        changes[name.removeprefix(SETTING)] = value
                variant = replace(variant, differs=())
            self._pairs[key] = Pair(
                variant, case.head, self.device, changes, self.seed, is_neutral=case.neutral
            )
        return self._pairs[key]

    def run(self, case: Case) -> Result:
        """The result of `case`, with its time."""
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
            # Of an option that only the variant has, a value was guessed: it may refuse that.
            parent_config = pair.parent_class.config_class()
            names = [name.split(".")[0] for name, _ in case.changes]
            if case.drawn and not all(hasattr(parent_config, name) for name in names):
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
    """Whether `pair` fails `case`, or raises an error in it."""
    try:
        return CHECKS[case.kind](CheckContext(pair, case)).status == "FAIL"
    except (NothingToCompare, CannotBuild):
        return False
    except Exception:  # a model raises what it likes
        return True


# --- causes

# Relative to the largest entry: far above what sums round, and below any error.
CLOSE = {torch.float64: 1e-8, torch.float32: 1e-3}
COARSE = 5e-2
HIDDEN = -1e4  # a mask adds less than this to the score of what it hides
PLAIN = (bool, int, float, str)  # compared by `==`
Run = Callable[[PreTrainedModel], object]  # runs one model as the case does


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
    """The module that computes something else in a case that fails, in words; else nothing."""
    context = CheckContext(pair, case)
    route = pair.weights_route if case.kind == "weights" else pair.route(case.route)
    scenario = replace(case.scenario, checkpointing=None)
    try:
        inputs = pair.inputs(scenario, context.dtype)
    except CannotBuild:  # the weights did not load, which is found before the inputs are drawn
        return ""
    run: Run
    with ExitStack() as stack:
        if case.kind in ("numbers", "weights"):
            run = functools.partial(observe_step, inputs=inputs, scenario=scenario)
        elif case.kind == "interface":
            route, _ = stack.enter_context(interface.attending_both(context))
            run = functools.partial(observe_step, inputs=inputs, scenario=scenario)
        elif case.kind == "cache":
            route = stack.enter_context(interface.reading(context))
            static = case.detail == "static"
            run = functools.partial(interface.read_in_pieces, inputs=inputs, static=static)
        elif case.kind == "generated":
            run = functools.partial(interface.generate_as_asked, context)
        else:
            return ""
        try:
            models = pair.models(route, context.dtype, scenario.dropout)
            is_exact = route.parent == route.variant
            return _say_tie(*models) or _say_where(models, run, pair, is_exact=is_exact)
        except Exception:  # a model raises what it likes, and the verdict has words of its own
            return ""


def _say_tie(*models: PreTrainedModel) -> str:
    """The first weight that is tied to another one in one of both models alone, in words."""
    ties: list[dict[str, str]] = []  # of each model: the names of tied parameters, and the first
    for model in models:
        first: dict[int, str] = {}
        tied: dict[str, str] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            origin = first.setdefault(id(parameter), name)
            if origin != name:
                tied[name] = origin
        ties.append(tied)
    theirs, ours = ties
    for name, origin in {**ours, **theirs}.items():
        if ours.get(name) != theirs.get(name):
            side, other = ("variant", "parent") if name in ours else ("parent", "variant")
            return f"`{name}` is `{origin}` in the {side}, and not in the {other}"
    return ""


def _say_where(models: Sequence[PreTrainedModel], run: Run, pair: Pair, *, is_exact: bool) -> str:
    """The first module of both that computes other outputs from equal inputs, in words.

    Inputs and outputs are floats, masks, integers such as positions, flags, and what is not given.
    The module may give another module something else, and compute nothing wrong itself.
    """
    their_calls, our_calls = (_record_calls(model, run) for model in models)
    compare = _Compare(CLOSE.get(models[1].dtype, COARSE), is_exact)
    for (name, number), call in our_calls.items():
        theirs = their_calls.get((name, number))
        if theirs is None or not compare.is_given_alike(call, theirs):
            continue
        if compare.are_alike(call.out, theirs.out):
            continue
        of_class = type(models[1].get_submodule(name)).__name__
        at = f" (`{name.rpartition('.')[2]}`)" if name else ""
        what = f"`{of_class}`{at} gives other values than the parent's for equal inputs"
        return f"{what}{_say_how_to_declare(of_class, pair)}"
    return ""


def _say_how_to_declare(of_class: str, pair: Pair) -> str:
    """Where a class is changed, which may be meant."""
    if of_class not in read_of(pair.variant).classes:
        return ""
    return f'; if that is meant, declare it: {DIFFERS} = {{"{of_class}": "why"}}'


@dataclass(frozen=True, slots=True)
class _Call:
    """What a module was given and what it gave, as `_flatten` has it."""

    names: tuple[str, ...]  # of the parameters of its forward
    given: dict[str, Any]
    out: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Compare:
    """Compares calls of the same module in two models."""

    close: float
    # Both sides have the same attention: no mask is not a mask, and no weights are not weights.
    is_exact: bool

    def is_given_alike(self, ours: _Call, theirs: _Call) -> bool:
        """Whether both are given the same, and neither something that the other is not."""
        if self.is_exact and ours.names == theirs.names:
            every = {**ours.given, **theirs.given}
            if any(every[name] is not None for name in ours.given.keys() ^ theirs.given.keys()):
                return False
        return self.are_alike(ours.given, theirs.given)

    def are_alike(self, ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
        """Whether what both have is the same."""
        pairs = []
        for name, value in ours.items():
            if name in theirs:
                pairs.append((value, theirs[name]))
        has_floats = any(_is_floating(one) for one, _ in pairs)
        if not has_floats:  # under other names
            our_floats = list(filter(_is_floating, ours.values()))
            their_floats = list(filter(_is_floating, theirs.values()))
            # Nothing in common is no evidence, unless neither side has anything.
            if bool(our_floats) != bool(their_floats):
                return False
            pairs += zip(our_floats, their_floats, strict=False)
        return all(self._is_same(one, two) for one, two in pairs)

    def _is_same(self, one: Any, two: Any) -> bool:
        if not isinstance(one, Tensor) or not isinstance(two, Tensor):
            return not self.is_exact or _are_equal(one, two)
        is_floating = _is_floating(two)
        if one.shape != two.shape:
            return not is_floating  # of another form, it may say the same
        if not is_floating:
            return one.equal(two)
        sizes = two.nan_to_num().abs()
        bound = self.close * float(sizes.max()) if sizes.numel() else 0.0
        return torch.allclose(one.double(), two.double(), rtol=0, atol=bound, equal_nan=True)


def _are_equal(one: Any, two: Any) -> bool:
    if isinstance(one, PLAIN) and isinstance(two, PLAIN):
        return one == two
    return (one is None) == (two is None)


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _record_calls(model: PreTrainedModel, run: Run) -> dict[tuple[str, int], _Call]:
    """The calls of each module, by its name and their number, in the order in which they end."""
    begun: dict[str, list[_Call]] = {}
    ended = {}

    def begin(name: str, module: nn.Module, given: Any, named: Any) -> None:
        form = inspect.signature(module.forward)
        bound = form.bind(*given, **named)
        bound.apply_defaults()
        # Now: it may change in place what it is given.
        call = _Call((*form.parameters,), _flatten(bound.arguments), {})
        begun.setdefault(name, []).append(call)

    def end(name: str, module: nn.Module, given: Any, named: Any, out: Any) -> None:
        calls = begun[name]
        call = replace(calls[-1], out=_flatten({"": out}))
        ended[name, len(calls)] = call

    with ExitStack() as stack:
        for name, module in model.named_modules():
            before = functools.partial(begin, name)
            behind = functools.partial(end, name)
            first = module.register_forward_pre_hook(before, with_kwargs=True)
            last = module.register_forward_hook(behind, with_kwargs=True)
            stack.callback(first.remove)
            stack.callback(last.remove)
        run(model)
    return ended


def _flatten(values: dict[str, Any]) -> dict[str, Any]:
    """Tensors, flags and None by where they stand; masks of the attention as what is visible.

    What is hidden in a mask with a bias is no number: it would be the largest one.
    """
    leaves, _ = tree_flatten_with_path(values)
    flat = {}
    for path, value in leaves:
        if _is_floating(value):
            is_mask = value.dim() == 4 and value.shape[1] == 1
            shown = value > HIDDEN
            flat[keystr(path)] = shown if is_mask else value.where(shown, math.nan)
        elif isinstance(value, Tensor):
            flat[keystr(path)] = value.clone()
        elif value is None or isinstance(value, PLAIN):
            flat[keystr(path)] = value
    return flat
