"""What a model of a flat file computes beside the same model as Python runs the modular file."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel, set_seed

from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.errors import describe_error
from patchgen.verifying.inputs.arguments import LARGEST, CannotBuild
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models.build import draw_weights, on_meta
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.oracle.initialised import blocks_initialised
from patchgen.verifying.oracle.running import Meaning, NotJudged
from patchgen.verifying.parts.part_check import Scenario

CLOSE = 1e-5  # relative to the largest entry, in float32: another order of a sum
NEAR_ZERO = 1e-6  # relative to the largest gradient: one that is zero but for rounding


@dataclass(frozen=True)
class Compared:
    differences: tuple[str, ...]
    tensors: int = 0  # outputs and gradients


def compare_models(
    meaning: Meaning, flat: ModuleType, head: str, scenarios: Sequence[Scenario]
) -> Compared:
    """Two tiny models of a class: their modules, weights, outputs and gradients.

    Raises NotJudged where the class cannot be built or run as Python runs the modular file.
    """
    meant = meaning.value_of(head)
    ours = getattr(flat, head)
    theirs = _whose_inputs(meaning.parent_of(head))
    _share_what_text_says(meaning, flat)
    try:
        values = tiny_config(theirs.config_class)
        with meaning.auto_classes(), blocks_initialised(meaning):
            model = build(meant, as_config_of(meant, values, theirs))
    except Exception as error:  # each model has its own
        raise NotJudged(f"{head} is not built by Python: {describe_error(error, 200)}") from error
    try:
        other = build(ours, as_config_of(ours, values, theirs))
    except Exception as error:
        return Compared((f"{head} cannot be built: {describe_error(error, 200)}",))
    states = model.state_dict(), other.state_dict()
    found = [*_other_modules(meaning, flat, model, other)]
    found += _different(f"{head}: a new model's", *states)
    if states[0].keys() != states[1].keys():
        return Compared(tuple(found))
    draw_weights(model)
    other.load_state_dict(model.state_dict())
    tensors = 0
    runs = [("", scenario) for scenario in scenarios]
    for attention, scenario in [*runs, ("eager", scenarios[0])]:
        try:
            _set_attention(model, attention)
            inputs = make_inputs(theirs, model.config, scenario).to("cpu", torch.float32)
            expected = observe_step(model, inputs, scenario)
        except Exception as error:
            if tensors:  # it runs otherwise
                continue
            what = f"{head} is not run by Python: {describe_error(error, 200)}"
            raise NotJudged(what) from error
        try:
            _set_attention(other, attention)
            observed = observe_step(other, inputs, scenario)
        except Exception as error:
            return Compared((*found, f"{head} cannot be run: {describe_error(error, 200)}"))
        tensors += len(expected)
        found += _different(f"{head}: its", expected, observed)
    return Compared(tuple(dict.fromkeys(found)), tensors)


def _share_what_text_says(meaning: Meaning, flat: ModuleType) -> None:
    """Let both sides choose attention alike: transformers looks for it in the text of a module."""
    for name, ours in list(vars(flat).items()):
        # What it imports is transformers', and would keep the answer for all other models.
        is_own = getattr(ours, "__module__", "") == flat.__name__
        if is_own and isinstance(ours, type) and issubclass(ours, PreTrainedModel):
            for meant in meaning.values_of(name):
                for what in ("attn", "experts"):
                    can_set = getattr(ours, f"_can_set_{what}_implementation")()
                    setattr(meant, f"_can_set_{what}_implementation_cached_value", can_set)


def _whose_inputs(cls: Any) -> Any:
    """The class itself, or for a base class alone the model without a head."""
    is_base = cls.__name__.endswith("PreTrainedModel")
    return MODEL_MAPPING.get(cls.config_class, cls) if is_base else cls


def _set_attention(model: Any, name: str) -> None:
    if name:
        model.set_attn_implementation(name)


def as_config_of(cls: Any, values: PreTrainedConfig, theirs: Any) -> PreTrainedConfig:
    """The tiny configuration as the class takes it."""
    if cls.config_class is theirs.config_class:
        return copy.deepcopy(values)
    given = values.to_dict()
    given.pop("model_type", None)
    return cls.config_class.from_dict(given)


def build(cls: Any, config: PreTrainedConfig) -> Any:
    size = sum(each.numel() for each in on_meta(cls, copy.deepcopy(config)).parameters())
    if size > LARGEST:
        raise CannotBuild(f"{size:,} parameters")
    set_seed(0)
    # What nothing initialises is filled, and not what the memory happens to hold.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        return cls(config).eval()
    finally:
        torch.use_deterministic_algorithms(False)


def _other_modules(
    meaning: Meaning, flat: ModuleType, model: nn.Module, other: nn.Module
) -> Iterator[str]:
    """The first module that is of transformers, and not of the flat file, where that counts."""
    theirs = dict(model.named_modules())
    for name, module in other.named_modules():
        meant = type(theirs.get(name))
        found = type(module)
        if meaning.is_changed(meant) and found.__module__ != flat.__name__:
            place = name or "the model"
            yield f"{place} is {found.__module__}.{found.__name__}, not {meaning.name_of(meant)}"
            return


def _different(what: str, expected: dict[str, Tensor], found: dict[str, Tensor]) -> Iterator[str]:
    """The first tensor that is not the same, and how many are not."""
    names = sorted(expected.keys() ^ found.keys())
    if names:
        side = "the modular file's" if names[0] in expected else "the flat file's"
        yield f"{what} {names[0]} is {side} alone"
        return
    gradients = [name for name in expected if "gradient" in name]
    largest = max((_largest(expected[name]) for name in gradients), default=0.0)
    wrong = []
    for name, tensor in expected.items():
        allowed = NEAR_ZERO * largest if name in gradients else 0.0
        if not _are_equal(tensor, found[name], allowed):
            wrong.append(name)
    if not wrong:
        return
    more = len(wrong) - 1
    others = f", and {more} more" if more else ""
    yield f"{what} {wrong[0]} is not what Python computes{others}"


def _largest(tensor: Tensor) -> float:
    """The largest absolute value that is finite; 0 where there is none."""
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _are_equal(one: Tensor, two: Tensor, allowed: float) -> bool:
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if not one.is_floating_point() or not one.numel():
        return torch.equal(one, two)
    if torch.equal(one.nan_to_num(), two.nan_to_num()):
        return True
    limit = max(CLOSE * _largest(one), allowed)
    return torch.allclose(one, two, rtol=0, atol=limit, equal_nan=True)
