"""Compute everything in float64, also what a model deliberately computes in float32.

Llama computes its norm, its softmax and its rotary embedding in float32 whatever the model's dtype
is.  Two float64 models that differ in the last bit before a norm then differ by a float32 rounding
behind it.  Inside `compute_in_float64()` such a model computes everything in float64.

Use it for comparisons only: it hides a difference between casts to float32, which the comparison in
bfloat16 shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack


@contextmanager
def compute_in_float64() -> Iterator[None]:
    """A context in which float32 becomes float64, also as the default dtype."""
    default = torch.get_default_dtype()  # what integers become when they are divided
    # Modes are off in the backward pass, where checkpointing runs modules again: each enters a mode
    # of its own then.
    entered: list[tuple[nn.Module, _Wide]] = []

    def enter(module: nn.Module, args: Any) -> None:
        if not any(isinstance(mode, _Wide) for mode in _get_current_function_mode_stack()):
            entered.append((module, _Wide()))
            entered[-1][1].__enter__()

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if entered and entered[-1][0] is module:
            entered.pop()[1].__exit__(None, None, None)

    hooks = (
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    )
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(default)
        for hook in hooks:
            hook.remove()


class _Wide(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        named = {name: _wide(each) for name, each in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(given: Any) -> Any:
    return torch.float64 if given is torch.float32 else given
