"""Where code asks what kind of tensor it has, a fake one passes for an ordinary one: it goes the way of a real run.

transformers makes masks for fake tensors that it leaves out for real ones; a file that takes a shorter way with plain
tensors asks for their type; modules that are converted to what they are already would be given new parameters; and a
number that becomes part of a name would be written as a tensor.
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
    """A context in which it is so; types in `modules` alone."""
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
    """Python's `type`, to which fake tensors are plain tensors and parameters."""
