"""Values of fake tensors, as far as they follow from inputs and constants.

Operations are also computed on real values, where all their inputs are known.  What depends on
weights has no value.  Where a model chooses by unknown scores, the choices are made in turn, which
is a balanced routing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.weak import WeakTensorKeyDictionary

from patchgen.runtime.checkpointing import argument_of, written_by

aten = torch.ops.aten

# Larger tensors are not computed: running on shapes is to save that time and memory.
MOST_INTEGERS = 2**26
MOST_FLOATS = 2**20

# These take only shape and dtype from their argument; the values are constant.
_FILLED: dict[Any, float] = {
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}
NOT_KNOWN = object()
_UNSET = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_strided.default,
        aten.empty_like.default,
        aten.new_empty.default,
    }
)
# The position of the output that holds the choice.
_CHOICES: dict[Any, int] = {
    aten.topk.default: 1,
    aten.sort.default: 1,
    aten.sort.stable: 1,
    aten.max.dim: 1,
    aten.min.dim: 1,
    aten.argmax.default: 0,
    aten.argmin.default: 0,
    aten.argsort.default: 0,
    aten.multinomial.default: 0,
}


class Values:
    """The values known so far; updated while a model runs."""

    def __init__(self) -> None:
        self._values: Any = WeakTensorKeyDictionary()
        # Storages that something unknown was written into; held, so that no other gets the address.
        self._spoilt: dict[int, Any] = {}

    def tell(self, tensor: Tensor, value: Tensor) -> None:
        """Set the value of `tensor`."""
        self._values[tensor] = value

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return the value of `tensor`, if it is known."""
        value: Tensor | None = self._values.get(tensor)
        return None if value is None or value.untyped_storage()._cdata in self._spoilt else value

    def fill(self, fake: Tensor, value: float) -> None:
        """Set all elements of `fake` to `value`."""
        with _disable_current_modes():
            self.tell(fake, torch.full(fake.shape, value, dtype=fake.dtype))

    def learn(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        """Record the result of `func`, or what it wrote, as far as its arguments are known."""
        written = list(written_by(func, args, kwargs))
        if written:
            if self.compute(func, args, kwargs) is NOT_KNOWN:
                self._spoil(written)
            return
        outs = tree_leaves(out)
        tensors = [tensor for tensor in outs if isinstance(tensor, Tensor)]
        if not tensors or not all(map(_is_small, tensors)) or func in _UNSET or _is_drawn(func):
            return
        if func in _FILLED:
            self.fill(tensors[0], _FILLED[func])
            return
        computed = self.compute(func, args, kwargs)
        if computed is not NOT_KNOWN:
            for fake, value in zip(outs, tree_leaves(computed), strict=True):
                if isinstance(fake, Tensor) and isinstance(value, Tensor):
                    self.tell(fake, value)
        elif func in _CHOICES:
            chosen = tensors[0] if len(tensors) == 1 else tensors[_CHOICES[func]]
            axis = argument_of(func, "dim", args, kwargs)
            self._choose_in_turn(chosen, args[0], -1 if axis is None else axis)

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of `func` on values; `NOT_KNOWN` where one is missing."""
        flat, spec = tree_flatten((args, dict(kwargs)))
        values = []
        for arg in flat:
            value = self._real(arg)
            if value is None and arg is not None:
                return NOT_KNOWN
            values.append(value)
        real_args, real_kwargs = tree_unflatten(values, spec)
        with _disable_current_modes():
            return func(*real_args, **real_kwargs)

    def _real(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if isinstance(leaf, Tensor) and is_fake(leaf):
            return self.of(leaf)
        return leaf

    def _spoil(self, written: Sequence[Tensor]) -> None:
        for tensor in written:
            value = self._values.get(tensor)
            if value is not None:
                storage = value.untyped_storage()
                self._spoilt[storage._cdata] = storage

    def _choose_in_turn(self, chosen: Tensor, scores: Tensor, axis: int) -> None:
        """Choose in turn: the first k of E in the first row, the next k in the second, ..."""
        with _disable_current_modes():
            indices = torch.zeros(chosen.shape, dtype=chosen.dtype)
            self.tell(chosen, indices)
            if scores.dim() == 0 or chosen.numel() == 0:
                return
            choices = scores.shape[axis]
            rows = indices
            if chosen.dim() == scores.dim():
                rows = indices.movedim(axis, -1)
            in_turn = torch.arange(rows.numel()) % choices
            rows.copy_(in_turn.reshape(rows.shape))


def _is_small(tensor: Tensor) -> bool:
    return bool(tensor.numel() <= (MOST_FLOATS if tensor.is_floating_point() else MOST_INTEGERS))


def _is_drawn(func: Any) -> bool:
    """Return whether the values are random: layers are assumed not to be dropped at random."""
    return torch.Tag.nondeterministic_seeded in func.tags
