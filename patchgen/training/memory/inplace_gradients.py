"""Finds the sums of gradients that autograd would compute in place without a dispatch mode.

Gradients that reach one tensor on two ways are added.  Autograd adds in place if nothing else holds
the first gradient.  Under a dispatch mode, or with fake tensors, it always makes a third tensor,
which a real step does not have.  Reference counts tell who holds a tensor; a small backward pass
with a known answer tells which counts mean "nobody else".
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

_ENGINE = "_engine_run_backward"  # in torch/autograd/graph.py, which calls the engine

# Files that run between the engine and a mode: this package, and what calls modes for torch.
_MACHINERY = ("/patchgen/training/memory/", "_dynamo", "_compile.py", "<")


def is_in_place_sum(func: Any, args: Sequence[Any], alone: tuple[int, int]) -> bool:
    """Return whether `func` is autograd's sum of two gradients that overwrites the first.

    Call it inside `__torch_dispatch__`, on arguments that nothing else has got hold of; `alone` are
    the counts of `sole_counts`.
    """
    if func is not torch.ops.aten.add.Tensor or not _called_by_engine():
        return False
    first, second = args[:2]
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return False
    same = first.shape == second.shape and first.dtype == second.dtype
    return same and _counts(first) == alone


def _called_by_engine() -> bool:
    """Return whether the innermost code that is not part of a mode is autograd's engine."""
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        if not any(part in frame.f_code.co_filename for part in _MACHINERY):
            return frame.f_code.co_name == _ENGINE
    return False


def _counts(tensor: Tensor) -> tuple[int, int]:
    """Return how often the tensor is referenced, and how often its storage."""
    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


@functools.cache
def sole_counts() -> tuple[int, int]:
    """Return the counts of a fake gradient that only autograd holds, as a mode sees it."""
    counts: list[tuple[int, int]] = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            if func is torch.ops.aten.add.Tensor:
                counts.append(_look(args))
            return func(*args, **(kwargs or {}))

    with _disable_current_modes(), torch.enable_grad(), FakeTensorMode():
        twice = torch.ones(3, requires_grad=True) * 2
        ways = twice.sin(), twice.cos()
        with Look():
            torch.autograd.backward(ways, [torch.ones(3), torch.ones(3)])
    return counts[0]


def _look(args: Sequence[Any]) -> tuple[int, int]:
    """Return the counts, at the same call depth as in `is_in_place_sum`."""
    first, _ = args[:2]
    return _counts(first)
