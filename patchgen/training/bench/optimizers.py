"""Optimizers by the names that contestants give them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from patchgen.training.bench.competitors import Unavailable

RATE = 1e-4


def build_optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW one tensor at a time ("loop"), by lists ("foreach"), as one kernel ("fused") or with states in 8 bits
    ("8bit"); "adafactor"; "sgd".  Raises Unavailable where it is not installed.
    """
    ways: dict[str, dict[str, Any]] = {
        "loop": {"foreach": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }
    if name in ways:
        return torch.optim.AdamW(parameters, lr=RATE, **ways[name])
    if name == "8bit":
        if importlib.util.find_spec("bitsandbytes") is None:
            raise Unavailable("bitsandbytes is not installed")
        return importlib.import_module("bitsandbytes").optim.AdamW8bit(parameters, lr=RATE)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=RATE)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=RATE)
    raise ValueError(f"there is no optimizer {name!r}")
