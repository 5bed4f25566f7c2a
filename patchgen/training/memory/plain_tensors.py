"""Lets fake tensors pass as plain tensors where code asks for their type.

The code then runs as in a real step.  transformers makes masks for fake tensors that it omits for
real ones.  Some models take a shorter way with plain tensors.  Modules that already have the right
dtype would get new parameters.  And a number that becomes part of a name would be formatted as a
tensor.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from transformers.utils import import_utils

from patchgen.training.patching import Patch, patched

_convert = nn.Module._apply


@contextmanager
def pass_as_plain_tensors(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Let fake tensors pass as plain tensors; for `type()`, in `modules` only."""
    patches: list[Patch] = [
        (nn.Module, "_apply", _converted),
        (FakeTensor, "__format__", _formatted),
        *((module, "type", OrdinaryType) for module in modules),
    ]
    if hasattr(import_utils, "is_fake_tensor"):
        patches.append((import_utils, "is_fake_tensor", lambda tensor: False))
    with patched(*patches):
        yield


def _converted(
    module: nn.Module, to: Callable[[Tensor], Tensor], recurse: bool = True
) -> nn.Module:
    held = [*module.parameters(recurse), *module.buffers(recurse)]
    return module if all(to(each) is each for each in held) else _convert(module, to, recurse)


def _formatted(tensor: Tensor, spec: str) -> str:
    return format(tensor.item(), spec) if tensor.dim() == 0 else object.__format__(tensor, spec)


class _Asked(builtins.type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, builtins.type)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], FakeTensor):
            return nn.Parameter if isinstance(args[0], nn.Parameter) else torch.Tensor
        return builtins.type(*args, **kwargs)


class OrdinaryType(metaclass=_Asked):
    """Python's `type`, which reports fake tensors as plain tensors and parameters."""
