"""What a model of a flat file computes beside the same model as Python runs the modular file."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, set_seed

from patchgen.runtime.tiny import tiny_config
from patchgen.verify.inputs.arguments import LARGEST, CannotBuild
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.models.build import draw_weights, on_meta
from patchgen.verify.observe.step import observe_step
from patchgen.verify.oracle.running import Meaning, NotJudged
from patchgen.verify.parts.part_check import Scenario

CLOSE = 1e-5  # relative to the largest entry, in float32: another order of a sum


def model_differences(
    meaning: Meaning, flat: ModuleType, head: str, scenarios: tuple[Scenario, ...]
) -> Iterator[str]:
    """What differs between two tiny models of a class: weights, outputs and gradients.

    Raises NotJudged where the class cannot be built or run as Python runs the modular file.
    """
    meant, ours = meaning.value_of(head), getattr(flat, head)
    theirs = meaning.parent_of(head)
    try:
        values = tiny_config(theirs.config_class)
    except Exception as error:  # each configuration has its own
        raise NotJudged(f"{head} has no tiny configuration: {error}") from error
    try:
        with meaning.auto_classes():
            model = _built(meant, _config_of(meant, values, theirs))
    except Exception as error:
        raise NotJudged(f"{head} is not built by Python: {say(error)}") from error
    try:
        other = _built(ours, _config_of(ours, values, theirs))
    except Exception as error:
        yield f"{head} cannot be built: {say(error)}"
        return
    yield from _different_modules(meaning, flat, model, other)
    states = model.state_dict(), other.state_dict()
    yield from _different(f"{head}: a new model's", *states)
    if states[0].keys() != states[1].keys():
        return
    draw_weights(model)
    other.load_state_dict(model.state_dict())
    for scenario in scenarios:
        try:
            inputs = make_inputs(theirs, model.config, scenario).to("cpu", torch.float32)
            with meaning.auto_classes():
                expected = observe_step(model, inputs, scenario)
        except Exception as error:
            raise NotJudged(f"{head} is not run by Python: {say(error)}") from error
        try:
            found = observe_step(other, inputs, scenario)
        except Exception as error:
            yield f"{head} cannot be run: {say(error)}"
            return
        yield from _different(f"{head}: its", expected, found)


def _config_of(cls: Any, values: PreTrainedConfig, theirs: Any) -> PreTrainedConfig:
    """The tiny configuration as the class takes it."""
    if cls.config_class is theirs.config_class:
        return copy.deepcopy(values)
    given = values.to_dict()
    given.pop("model_type", None)
    return cls.config_class.from_dict(given)


def _built(cls: Any, config: PreTrainedConfig) -> Any:
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


def _different_modules(
    meaning: Meaning, flat: ModuleType, model: nn.Module, other: nn.Module
) -> Iterator[str]:
    """Modules that are of another class: one of transformers is not what the file changes."""
    theirs = dict(model.named_modules())
    for name, module in other.named_modules():
        if name not in theirs:
            continue
        meant = meaning.name_of(type(theirs[name]))
        found = type(module)
        if meant is not None and found.__module__ != flat.__name__ and not _is_auto(found, flat):
            yield f"{name or 'the model'} is {found.__module__}.{found.__name__}, not {meant}"
            return


def _is_auto(found: type, flat: ModuleType) -> bool:
    return False


def _different(what: str, expected: dict[str, Tensor], found: dict[str, Tensor]) -> Iterator[str]:
    """The first tensor that is not the same, and how many are not."""
    if names := sorted(expected.keys() ^ found.keys()):
        side = "the modular file's" if names[0] in expected else "the flat file's"
        yield f"{what} {names[0]} is {side} alone"
        return
    wrong = [name for name in expected if not _are_equal(expected[name], found[name])]
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        yield f"{what} {wrong[0]} is not what Python computes{more}"


def _are_equal(one: Tensor, two: Tensor) -> bool:
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if not one.is_floating_point() or not one.numel():
        return torch.equal(one, two)
    if torch.equal(one.nan_to_num(), two.nan_to_num()):
        return True
    largest = float(one[one.isfinite()].abs().max()) if one.isfinite().any() else 0.0
    return torch.allclose(one, two, rtol=0, atol=CLOSE * largest, equal_nan=True)


def say(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
