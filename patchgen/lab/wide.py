"""Everything in float64, what a model computes in float32 for safety's sake included.

Llama's norm, its softmax and its rotary embedding are computed in float32 whatever the model's dtype is: two float64
models that differ in the last bit before a norm then differ by a rounding of float32 behind it.  Within `widened()`
such a model shows what it computes, to the precision of float64.  Only for comparing: a difference between casts to
float32 is not seen here, and is seen in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class widened(TorchFunctionMode):
    """A context in which whatever is asked for in float32 is given in float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.float:
            return args[0].double()
        return func(*(_wide(each) for each in args), **{name: _wide(each) for name, each in (kwargs or {}).items()})


def _wide(given: Any) -> Any:
    return torch.float64 if given is torch.float32 else given
