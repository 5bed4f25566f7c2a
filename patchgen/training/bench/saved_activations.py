"""Counts the bytes that autograd saves for backward, without weights, each storage once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def saved_bytes(run: Callable[[], Any], model: nn.Module) -> int:
    """Return the bytes that `run`, a forward pass of the model, saves."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}
    held = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(storage)  # so that no later storage gets its address
        # A saved output that keeps its graph would keep itself: nothing would ever be freed.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(kept.values())
