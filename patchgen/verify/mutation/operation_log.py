"""Record each operation: two equal recordings computed the same numbers.

A recording names each operation that torch runs, in the forward and the backward pass, with its
constants, and for each tensor that it is given which operation made it; of a tensor that none made
(a weight, an input) its contents.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from patchgen.verify.observe.recorder import Args, Given, Listener

# Names for the same values: what they change for autograd shows in the backward pass.
_RENAMES = frozenset({"aten.detach", "aten.alias", "aten.lift_fresh"})


class OperationLog(Listener):
    """`digest()` is that of everything that ran while it listened."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._made: dict[int, str] = {}  # by the id of a tensor
        self._stored: dict[int, str] = {}  # by the address of its storage
        self._alive: list[Tensor] = []  # keeps ids and addresses from being reused
        self.operations = 0

    def digest(self) -> str:
        return self._hash.hexdigest()

    def begins(self, operation: Any, args: Args, given: Given) -> None:
        if str(operation.overloadpacket) not in _RENAMES:
            canonical = _canonical_axes(operation, _with_defaults(operation, args, given))
            named = tree_map_only((Tensor, torch.Generator), self._name, canonical)
            self._hash.update(f"{operation}{named!r}\n".encode())

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        if str(operation.overloadpacket) in _RENAMES:
            self._call(out, self._name(args[0]))
            return
        for at, result in enumerate(tree_leaves(out)):
            if isinstance(result, Tensor):
                self._call(result, f"%{self.operations}.{at}")
            else:  # a number that Python is given may decide what comes next
                self._hash.update(f"{result!r}".encode())
        self.operations += 1

    def _name(self, given: Tensor | torch.Generator) -> str:
        if isinstance(given, torch.Generator):
            return f"generator {given.initial_seed()}"
        if id(given) not in self._made:
            # A parameter is another tensor on the storage that it was made of.
            owner = self._stored.get(given.untyped_storage().data_ptr())
            self._call(given, f"{owner}{_form(given)}" if owner else _contents(given))
        return self._made[id(given)]

    def _call(self, tensor: Tensor, name: str) -> None:
        self._made[id(tensor)] = name
        if place := tensor.untyped_storage().data_ptr():
            self._stored.setdefault(place, name)
        self._alive.append(tensor)


def _with_defaults(func: Any, args: Args, given: Given) -> Args:
    """Every argument of the operation in its place: also those that the caller left out."""
    rest = func._schema.arguments[len(args) :]
    return (*args, *(given.get(each.name, each.default_value) for each in rest))


def _canonical_axes(func: Any, args: Args) -> Args:
    """`args` with axes counted from the front; two that change places, in their order."""
    if (
        not args
        or not isinstance(args[0], Tensor)
        or func.overloadpacket is torch.ops.aten.unsqueeze
    ):
        return args
    names = [each.name for each in func._schema.arguments]
    axes = args[0].dim() or 1
    canonical = [
        _from_front(each, axes) if name.startswith("dim") else each
        for name, each in zip(names, args, strict=False)
    ]
    return (
        (canonical[0], *sorted(canonical[1:]))
        if func is torch.ops.aten.transpose.int
        else tuple(canonical)
    )


def _from_front(axis: Any, axes: int) -> Any:
    if isinstance(axis, list):
        return [_from_front(each, axes) for each in axis]
    return axis % axes if type(axis) is int else axis


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype}{tuple(tensor.shape)}{tuple(tensor.stride())}{tensor.storage_offset()}"


def _contents(tensor: Tensor) -> str:
    with torch.no_grad(), _disable_current_modes():
        whole = tensor.detach().to("cpu").contiguous()
        raw = whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b""
    return f"{_form(tensor)}{hashlib.sha256(raw).hexdigest()[:16]}"
