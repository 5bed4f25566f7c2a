"""Replaces operations by those of CUDA, where torch was built for the CPU only.

Fake tensors of a CUDA device need a torch that was built with CUDA.  Without it the tensors are on
the CPU, and these operations keep for the backward pass what CUDA's keep.  Dropout keeps a mask of
one byte per element, instead of the input's dtype.  Attention runs in a fused kernel, also with
dropout.  An RMS norm keeps its input and one number per row.  Autocast computes sums, powers and
normalizations in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map

aten = torch.ops.aten

HALVES = (torch.bfloat16, torch.float16)
WIDEST_HEAD = 256  # of the flash kernels
# What CUDA's autocast, unlike the CPU's, computes in float32, by the place where models look it up.
_OF_BOTH = "softmax log_softmax pow rsqrt exp log sum prod cumsum norm".split()
_OF_F = (
    "softmax log_softmax layer_norm group_norm cross_entropy nll_loss normalize softplus".split()
)
_IN_FLOAT32: tuple[tuple[Any, list[str]], ...] = (
    (F, _OF_F),
    (torch, [*_OF_BOTH, "sinh", "tan"]),
    (Tensor, [*_OF_BOTH, "__pow__"]),
)


def device_label(device: str) -> str:
    """Return the device that tensors are created on."""
    return device if device != "cuda" or torch.backends.cuda.is_built() else "cpu"


@contextmanager
def use_kernels(device: str) -> Iterator[None]:
    """Use the kernels of `device`, as far as memory depends on them."""
    if device_label(device) == device:
        yield
        return
    # No function mode: modes are off in the backward pass, where checkpoints run forwards again.
    with ExitStack() as stack:
        stack.enter_context(patch.object(F, "dropout", _dropout))
        stack.enter_context(patch.object(F, "scaled_dot_product_attention", _attention))
        stack.enter_context(patch.object(F, "rms_norm", _rms_norm))
        for owner, names in _IN_FLOAT32:
            for name in names:
                widened = _in_float32(getattr(owner, name))
                stack.enter_context(patch.object(owner, name, widened))
        yield


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, with its first argument widened by autocast."""

    def widened(*args: Any, **kwargs: Any) -> Any:
        if _is_narrow(args[0]) and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map(_widen, (args, kwargs))
        return function(*args, **kwargs)

    return widened


def _is_narrow(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in HALVES


def _widen(value: Any) -> Any:
    return value.float() if _is_narrow(value) else value


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return input
    kept: Tensor = torch.native_dropout(input, p, True)[0]
    return input.copy_(kept) if inplace else kept


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Run a kernel that keeps what torch's choice keeps; cuDNN's keeps what flash keeps."""
    if torch.is_autocast_enabled("cpu"):
        narrow = torch.get_autocast_dtype("cpu")
        query, key, value = (states.to(narrow) for states in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(narrow)
    width = query.shape[-1]
    shares_keys = query.shape[-3] != key.shape[-3]
    fits_flash = width % 8 == 0 and value.shape[-1] == width and width <= WIDEST_HEAD
    if query.dim() == 4 and fits_flash and attn_mask is None and query.dtype in HALVES:
        return aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale
        )[0]
    if query.dim() == 4 and not shares_keys and query.dtype in (*HALVES, torch.float32):
        bias = None if attn_mask is None else _bias(attn_mask, query, key)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, dropout_p, is_causal, scale=scale
        )[0]
    if shares_keys:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (states.repeat_interleave(groups, -3) for states in (key, value))
    return aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )[0]


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Return a mask as the values added to scores; rows are aligned to 16 elements."""
    keys = mask.shape[-1]
    bias = mask
    if mask.dtype == torch.bool:
        bias = torch.zeros_like(mask, dtype=query.dtype)
        bias.masked_fill_(~mask, float("-inf"))
    padding = -keys % 16
    if padding:
        bias = F.pad(bias, (0, padding))[..., :keys]
    return bias.expand(*query.shape[:3], key.shape[-2])


class _RmsNorm(torch.autograd.Function):
    """Keeps what the fused kernel keeps: the input, the weight if any, and a number per row."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor | None) -> Tensor:
        rows = input.new_empty((*input.shape[:-1], 1), dtype=torch.float32)
        ctx.save_for_backward(input, weight, rows)
        return torch.empty_like(input)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        input, weight, _ = ctx.saved_tensors
        grad_weight = None if weight is None else torch.empty_like(weight)
        return torch.empty_like(input), grad_weight


_plain_rms_norm = F.rms_norm


def _rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    if len(normalized_shape) != 1:
        return _plain_rms_norm(input, normalized_shape, weight, eps)
    return _RmsNorm.apply(input, weight)
