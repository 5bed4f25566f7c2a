"""Kernels that no CPU has, written out: what a branch for FlashAttention computes is then seen without a GPU.

The functions have the signatures and the refusals of flash-attn 2.8 and of `torch.nn.attention.varlen`.  Within
`kernels_of(module, ...)` the generated module finds them where it looks for the packages', and tensors say that they
are on a GPU of today.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from patchgen.lab.claim import replaced

Package = Literal["flash_attn", "torch"]
HALF = (torch.float16, torch.bfloat16)
_IS_CUDA = vars(torch._C.TensorBase)["is_cuda"].__get__  # as a mode is told of it
LOOKED_FOR = ("flash_attn_func", "flash_attn_varlen_func", "varlen_attn")


@dataclass(slots=True)
class Calls:
    """What the kernels were asked for, in the order of the calls."""

    asked: list[dict[str, Any]] = field(default_factory=list)


def has_branch(module: ModuleType) -> bool:
    """Whether the module looks for such kernels."""
    return all(hasattr(module, name) for name in LOOKED_FOR)


@contextmanager
def kernels_of(module: ModuleType, package: Package) -> Iterator[Calls]:
    """As on a GPU where `package` is installed; gives the calls."""
    calls = Calls()
    rows, varlen, by_torch = _noted(calls)
    found = {
        "flash_attn_func": rows if package == "flash_attn" else None,
        "flash_attn_varlen_func": varlen if package == "flash_attn" else None,
        "varlen_attn": by_torch,
        "VARLEN_OPTIONS": frozenset({"query", "key", "value", "scale", "window_size", "enable_gqa"}),
    }
    with ExitStack() as stack:
        for name, value in found.items():
            stack.enter_context(replaced(module, name, _instead(value)))
        stack.enter_context(replaced(torch.cuda, "get_device_capability", _instead(lambda device=None: (9, 0))))
        stack.enter_context(_OnGpu())
        yield calls


def _instead(value: Any) -> Callable[[Any], Any]:
    return lambda was: value


class _OnGpu(TorchFunctionMode):
    """`tensor.is_cuda` is True."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        if func == _IS_CUDA:
            return True
        return func(*args, **(kwargs or {}))


def _noted(calls: Calls) -> tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor]]:
    def flash_attn_func(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        dropout_p: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        calls.asked.append({"dropout": dropout_p, "scale": softmax_scale, "causal": causal, "window": window_size})
        length = q.shape[1]
        seen = _seen(length, causal, window_size)
        rows = zip(q.unbind(), k.unbind(), v.unbind(), strict=True)
        return torch.stack([attend(*row, seen, softmax_scale, dropout_p) for row in rows])

    def flash_attn_varlen_func(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        max_seqlen_q: int,
        max_seqlen_k: int,
        dropout_p: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        calls.asked.append({"dropout": dropout_p, "scale": softmax_scale, "causal": causal, "window": window_size})
        _insist_on_lengths(q, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
        return _in_sequences(q, k, v, cu_seqlens_q, causal, window_size, softmax_scale, dropout_p)

    def varlen_attn(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seq_q: Tensor,
        cu_seq_k: Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float | None = None,
        window_size: tuple[int, int] = (-1, -1),
        enable_gqa: bool = False,
    ) -> Tensor:
        calls.asked.append({"dropout": 0.0, "scale": scale, "causal": window_size[1] == 0, "window": window_size})
        if query.shape[1] != key.shape[1] and not enable_gqa:
            raise RuntimeError("query and key have other numbers of heads, and enable_gqa is False")
        _insist_on_lengths(query, cu_seq_q, cu_seq_k, max_q, max_k)
        return _in_sequences(query, key, value, cu_seq_q, False, window_size, scale, 0.0)

    return _unseen(flash_attn_func), _unseen(flash_attn_varlen_func), _unseen(varlen_attn)


def _unseen(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`kernel` as one step: nobody who watches what runs sees how it is written out here."""

    @functools.wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return kernel(*args, **kwargs)

    return call


def _insist_on_lengths(query: Tensor, starts_q: Tensor, starts_k: Tensor, longest_q: int, longest_k: int) -> None:
    """What a kernel reads or writes past the end without a word is an error here."""
    if starts_q.dtype != torch.int32 or starts_k.dtype != torch.int32:
        raise RuntimeError("cu_seqlens are to be int32")
    if not torch.equal(starts_q, starts_k) or int(starts_q[0]) != 0 or int(starts_q[-1]) != query.shape[0]:
        raise RuntimeError(f"the sequences begin at {starts_q.tolist()}, and there are {query.shape[0]} tokens")
    if not int(starts_q.diff().max()) <= min(longest_q, longest_k):
        raise RuntimeError(f"the longest sequence is said to have {longest_q} tokens")


def _in_sequences(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, causal: bool, window: tuple[int, int], scale: Any, dropout: float
) -> Tensor:
    lengths = starts.diff().tolist()
    pieces = zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True)
    return torch.cat([attend(*each, _seen(len(each[0]), causal, window), scale, dropout) for each in pieces])


def _seen(length: int, causal: bool, window: tuple[int, int]) -> Tensor:
    """Of a query (a row) the keys: `window` of them to the left and to the right of its own, -1 for all."""
    back = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    left, right = window[0], 0 if causal else window[1]
    return ((back <= left) | (left < 0)) & ((-back <= right) | (right < 0))


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float | None, dropout: float) -> Tensor:
    """softmax(q @ k^T * scale) @ v over the keys that are seen, of (L, H, D), summed in float32 as kernels do."""
    if q.dtype not in HALF or not q.dtype == k.dtype == v.dtype:
        raise RuntimeError("FlashAttention only supports fp16 and bf16 data type")
    groups = q.shape[1] // k.shape[1]
    query, key, value = (
        each.float().transpose(0, 1) for each in (q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1))
    )
    scores = query @ key.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    probabilities = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return (torch.dropout(probabilities, dropout, train=True) @ value).transpose(0, 1).to(q.dtype)
