"""Lend a model to code that may change it, and restore it afterwards.

Not a copy: at another address kernels may add in another order, and differences of one rounding
would look like an error where there is none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_TABLES = ("_parameters", "_buffers", "_modules")


@contextmanager
def kept(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """A context after which weights, buffers, attributes and configurations are as before."""
    attributes = [(module, dict(vars(module)), _tables(module)) for module in model.modules()]
    values = [(tensor, tensor.detach().clone()) for tensor in _tensors(model)]
    configs = [(config, copy.deepcopy(vars(config))) for config in _configs(model)]
    try:
        yield model
    finally:
        for module, own, tables in attributes:
            vars(module).clear()
            vars(module).update(own)
            for name, table in tables.items():
                vars(module)[name].clear()
                vars(module)[name].update(table)
        with torch.no_grad():
            for tensor, value in values:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for config, settings in configs:
            if vars(config) != settings:
                vars(config).clear()
                vars(config).update(settings)


def _tables(module: nn.Module) -> dict[str, dict[str, Any]]:
    return {name: dict(vars(module)[name]) for name in _TABLES}


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _configs(model: nn.Module) -> list[Any]:
    found = (getattr(module, "config", None) for module in model.modules())
    return list({id(config): config for config in found if config is not None}.values())
