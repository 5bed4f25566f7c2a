"""Optimizers by name: those that `bench` and `memory` build, and Trainer's names for `train`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

# What `train --optim` takes beside Trainer's own names.
TRAINER_NAMES = {
    "adamw": "adamw_torch",
    "foreach": "adamw_torch",
    "fused": "adamw_torch_fused",
    "adafactor": "adafactor",
    "8bit": "adamw_bnb_8bit",
    "sgd": "sgd",
}
# torch's three implementations of AdamW: one tensor at a time, by lists of tensors, one kernel.
_ADAMW: dict[str, dict[str, Any]] = {
    "adamw-loop": {"foreach": False},
    "adamw-foreach": {"foreach": True},
    "adamw": {"fused": True},
}
RATE = 1e-4  # speed and memory do not depend on it


class NotInstalled(Exception):
    """The optimizer needs a package that is not installed."""


def build_optimizer(
    name: str, parameters: Iterable[nn.Parameter] | list[dict[str, Any]]
) -> torch.optim.Optimizer:
    """Build the optimizer over parameters or groups of them.

    Names are those of AdamW above, "adamw-8bit", "sgd", "momentum", "adafactor" (the one that
    Trainer takes, of transformers) and "torch-adafactor".  Raises NotInstalled for a missing
    package, and ValueError for an unknown name.
    """
    if name in _ADAMW:
        return torch.optim.AdamW(parameters, lr=RATE, **_ADAMW[name])
    match name:
        case "adamw-8bit":
            if importlib.util.find_spec("bitsandbytes") is None:
                raise NotInstalled("bitsandbytes is not installed")
            return importlib.import_module("bitsandbytes").optim.AdamW8bit(parameters, lr=RATE)
        case "sgd":
            return torch.optim.SGD(parameters, lr=RATE)
        case "momentum":
            return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)
        case "adafactor":
            from transformers.optimization import Adafactor

            return Adafactor(parameters, lr=RATE, scale_parameter=False, relative_step=False)
        case "torch-adafactor":
            return torch.optim.Adafactor(parameters, lr=RATE)
    raise ValueError(f"no optimizer is called {name}")
