"""Leave layers of a deep model out, where they are all alike.

What a step takes then rises by the same with each layer, so that it can be counted in models of a
few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from transformers import PreTrainedModel

DEEP = 16  # counting fewer layers as they are takes no longer
_Fields = list[tuple[str, Any]]


def leave_layers_out(model: PreTrainedModel, kept: int) -> int:
    """Keep `kept` of the layers that are alike, in each of the longest stacks.

    Returns how many are left out of each stack: 0, and the model stays whole, where it is not deep
    or where its configuration tells its layers apart.
    """
    told_apart = {len(each) for each in _lists_of(model.config.to_dict()) if _differ(each)}
    deepest: list[tuple[nn.ModuleList, range]] = []
    longest = DEEP
    for layers in model.modules():
        if not isinstance(layers, nn.ModuleList) or len(layers) < DEEP:
            continue
        alike = _longest_run(layers)
        if len(alike) > longest:
            longest = len(alike)
            deepest = []
        if len(alike) == longest:
            deepest.append((layers, alike))
    if not deepest or any(len(layers) in told_apart for layers, _ in deepest):
        return 0
    for layers, alike in deepest:
        del layers[alike.start + kept : alike.stop]
    return longest - kept


def _longest_run(layers: nn.ModuleList) -> range:
    """The places of the most neighbours that are alike."""
    fields = [_fields_of(layer) for layer in layers]
    longest = run = range(1)
    for place in range(1, len(fields)):
        is_alike = _are_alike(fields[place - 1], fields[place], place)
        run = range(run.start if is_alike else place, place + 1)
        if len(run) > len(longest):
            longest = run
    return longest


def _are_alike(before: _Fields, after: _Fields, place: int) -> bool:
    """Whether two neighbours have the same fields, or each has its own place in one."""
    if len(before) != len(after):
        return False
    for (name, one), (other_name, other) in zip(before, after, strict=True):
        is_place = (one, other) == (place - 1, place)
        if name != other_name or not (is_place or one == other):
            return False
    return True


_PLAIN = (bool, int, float, str, tuple)


def _fields_of(layer: nn.Module) -> _Fields:
    """Classes, shapes and plain attributes of all that a layer has."""
    fields: _Fields = []
    for path, module in layer.named_modules():
        fields.append((path, type(module)))
        for name, value in sorted(vars(module).items()):
            if value is None or isinstance(value, _PLAIN):
                fields.append((f"{path}.{name}", value))
    tensors = (*layer.named_parameters(), *layer.named_buffers())
    for name, tensor in tensors:
        kind = (tensor.shape, tensor.dtype, tensor.requires_grad)
        fields.append((name, kind))
    return fields


def _lists_of(values: Any) -> Iterator[list[Any]]:
    """Every list in a configuration."""
    if isinstance(values, Mapping):
        values = [*values.values()]
    elif isinstance(values, list | tuple):
        yield list(values)
    else:
        return
    for value in values:
        yield from _lists_of(value)


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)
