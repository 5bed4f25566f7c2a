"""Leave layers of a deep model out, where they are all alike.

What a step takes then rises by the same with each layer, so that it can be counted in models of a
few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    deepest: list[tuple[nn.ModuleList, int, int]] = []
    longest = 0
    for layers in model.modules():
        if not isinstance(layers, nn.ModuleList) or len(layers) < DEEP:
            continue
        start, end = _longest_run(layers)
        if end - start > longest:
            longest = end - start
            deepest = []
        if end - start == longest:
            deepest.append((layers, start, end))
    if longest < DEEP or any(len(layers) in told_apart for layers, _, _ in deepest):
        return 0
    for layers, start, end in deepest:
        del layers[start + kept : end]
    return longest - kept


def _longest_run(layers: nn.ModuleList) -> tuple[int, int]:
    """The first and the end of the most neighbours that are alike."""
    fields = [_fields_of(layer) for layer in layers]
    start, longest = 0, (0, 0)
    for end in range(1, len(fields) + 1):
        if end < len(fields) and _are_alike(fields[end - 1], fields[end], end):
            continue
        longest = max(longest, (start, end), key=lambda run: run[1] - run[0])
        start = end
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


def _fields_of(layer: nn.Module) -> _Fields:
    """Classes, shapes and plain attributes of all that a layer has."""
    fields: _Fields = []
    for path, module in layer.named_modules():
        fields.append((path, type(module)))
        for name, value in sorted(vars(module).items()):
            if value is None or isinstance(value, bool | int | float | str | tuple):
                fields.append((f"{path}.{name}", value))
        for name, tensor in (*module.named_parameters(recurse=False), *module._buffers.items()):
            shape = None if tensor is None else (tensor.shape, tensor.dtype, tensor.requires_grad)
            fields.append((f"{path}.{name}", shape))
    return fields


def _lists_of(values: Any) -> Iterator[list[Any]]:
    """Every list in a configuration."""
    inner: Iterable[Any] = ()
    if isinstance(values, Mapping):
        inner = values.values()
    elif isinstance(values, list | tuple):
        yield list(values)
        inner = values
    for value in inner:
        yield from _lists_of(value)


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)
