"""See what autograd saves for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Saved:
    """One storage that autograd keeps for the backward pass."""

    shape: tuple[int, ...]  # of the first tensor on it that was saved
    dtype: torch.dtype
    bytes: int


@contextmanager
def watch_saved(note: Callable[[Tensor], None]) -> Iterator[None]:
    """Call `note` with each tensor that autograd saves."""

    def pack(tensor: Tensor) -> Tensor:
        note(tensor)
        # An output that is saved with its own graph would keep itself alive.
        return tensor.detach() if tensor.grad_fn is not None else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


@contextmanager
def record_saved(model: nn.Module) -> Iterator[list[Saved]]:
    """A context for a step of `model`; gives each storage that is saved, without parameters."""
    parameters = {_address(parameter) for parameter in model.parameters()}
    held: dict[int, torch.UntypedStorage] = {}  # alive, so that no address is used twice
    saved: list[Saved] = []

    def note(tensor: Tensor) -> None:
        address = _address(tensor)
        if address not in parameters and address not in held:
            storage = tensor.untyped_storage()
            held[address] = storage
            saved.append(Saved(tuple(tensor.shape), tensor.dtype, storage.nbytes()))

    with watch_saved(note):
        yield saved


def count_saved_bytes(run: Callable[[], Any], model: nn.Module) -> int:
    """The bytes that `run`, a forward pass of `model`, makes autograd save."""
    with record_saved(model) as saved:
        run()
    return sum(each.bytes for each in saved)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
