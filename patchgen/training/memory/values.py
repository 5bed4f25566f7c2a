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
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten
from torch.utils.weak import WeakTensorKeyDictionary

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
        written = _written(func, args, kwargs)
        if written:
            if self.compute(func, args, kwargs) is NOT_KNOWN:
                self._spoil(written)
            return
        outs, _ = tree_flatten(out)
        tensors = [tensor for tensor in outs if isinstance(tensor, Tensor)]
        if not tensors or not all(map(_is_small, tensors)) or func in _UNSET or _is_drawn(func):
            return
        if func in _FILLED:
            self.fill(tensors[0], _FILLED[func])
            return
        computed = self.compute(func, args, kwargs)
        if computed is not NOT_KNOWN:
            values, _ = tree_flatten(computed)
            for fake, value in zip(outs, values, strict=True):
                if isinstance(fake, Tensor) and isinstance(value, Tensor):
                    self.tell(fake, value)
        elif func in _CHOICES:
            chosen = tensors[_CHOICES[func] if len(tensors) > 1 else 0]
            self._choose_in_turn(chosen, args[0], _axis(func, args, kwargs))

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of `func` on values; `NOT_KNOWN` where one is missing."""
        flat, spec = tree_flatten((args, dict(kwargs)))
        values = [self._real(arg) for arg in flat]
        if any(value is None and arg is not None for arg, value in zip(flat, values, strict=True)):
            return NOT_KNOWN
        real_args, real_kwargs = torch.utils._pytree.tree_unflatten(values, spec)
        with _disable_current_modes():
            return func(*real_args, **real_kwargs)

    def _real(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if not isinstance(leaf, Tensor):
            return leaf
        if not torch._subclasses.fake_tensor.is_fake(leaf):
            return leaf
        return self.of(leaf)

    def _spoil(self, written: Sequence[Tensor]) -> None:
        for tensor in written:
            value = self._values.get(tensor)
            if value is not None:
                storage = value.untyped_storage()
                self._spoilt[storage._cdata] = storage

    def _choose_in_turn(self, chosen: Tensor, scores: Tensor, axis: int) -> None:
        """Choose in turn: the first k of E in the first row, the next k in the second, ..."""
        with _disable_current_modes():
            if scores.dim() == 0 or chosen.numel() == 0:
                return self.tell(chosen, torch.zeros(chosen.shape, dtype=chosen.dtype))
            many = scores.shape[axis]
            if chosen.shape == scores.shape or many == 0:  # all of them: their order
                order = torch.arange(many).reshape(
                    [-1 if i == axis % scores.dim() else 1 for i in range(scores.dim())]
                )
                return self.tell(chosen, order.expand(chosen.shape).clone())
            keeps_axis = chosen.dim() == scores.dim()
            moved = torch.empty(chosen.shape, dtype=chosen.dtype)
            rows = moved.movedim(axis, -1) if keeps_axis else moved
            rows.copy_((torch.arange(rows.numel()) % many).reshape(rows.shape))
            self.tell(chosen, moved)


def _is_small(tensor: Tensor) -> bool:
    return bool(tensor.numel() <= (MOST_FLOATS if tensor.is_floating_point() else MOST_INTEGERS))


def _is_drawn(func: Any) -> bool:
    """Return whether the values are random: layers are assumed not to be dropped at random."""
    return torch.Tag.nondeterministic_seeded in func.tags


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that `func` changes."""
    tensors: list[Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        tensors += [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]
    return tensors


def _axis(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    for position, argument in enumerate(func._schema.arguments):
        if argument.name == "dim":
            value = (
                args[position]
                if position < len(args)
                else kwargs.get("dim", argument.default_value)
            )
            return -1 if value is None else int(value)
    return -1
