"""Record the torch functions that a model calls: SDPA, softmaxes, and all others by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

_SOFTMAXES = frozenset(
    {F.softmax, torch.softmax, Tensor.softmax, F.log_softmax, torch.log_softmax, Tensor.log_softmax}
)

# What autograd calls a product of two activations, and one with a weight.
_PRODUCTS = ("BmmBackward", "BaddbmmBackward")
_PROJECTIONS = ("AddmmBackward", "MmBackward", "LinearBackward", "ConvolutionBackward")


@dataclass(frozen=True, slots=True)
class SdpaCall:
    """One call: the shapes of query and key, how it was masked, and how far its scores spread."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    mask: Literal["none", "causal", "bool", "float"]
    native_gqa: bool
    scores_std: float  # over all pairs, masked or not


@dataclass(slots=True)
class Trace:
    """The calls inside `with traced() as trace:`."""

    sdpa: list[SdpaCall] = field(default_factory=list)
    softmaxes: list[tuple[int, ...]] = field(
        default_factory=list
    )  # the shape of each, gates left out
    functions: Counter[str] = field(default_factory=Counter)  # every call, by bare name

    def softmaxes_over(self, *keys: int) -> int:
        """Softmaxes of three axes or more over one of `keys`: attention written out."""
        return sum(len(shape) >= 3 and shape[-1] in keys for shape in self.softmaxes)


class traced(TorchFunctionMode):
    """A context in which calls are recorded; gives the `Trace`."""

    def __init__(self) -> None:
        super().__init__()
        self.trace = Trace()

    def __enter__(self) -> Trace:
        super().__enter__()
        return self.trace

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        self.trace.functions[getattr(func, "__name__", str(func))] += 1
        if func is F.scaled_dot_product_attention:
            self.trace.sdpa.append(_sdpa_call(*args, **given))
        elif func in _SOFTMAXES:
            scores = args[0] if args else given["input"]
            if not is_projected(scores):
                self.trace.softmaxes.append(tuple(scores.shape))
        elif func is F.multi_head_attention_forward and given.get("need_weights", True):
            # A composition of torch's own, whose inner calls are not recorded.
            query, key, heads = args[0], args[1], args[4]
            self.trace.softmaxes.append((query.shape[1] * heads, query.shape[0], key.shape[0]))
        return func(*args, **given)


def is_projected(scores: Tensor) -> bool:
    """Whether `scores` are one projection of some states: a gate's, and of no queries with keys.

    So are the weights of deformable attention, which looks at few places for each query.
    """
    waiting, met = [scores.grad_fn], set()
    projections = 0
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        kind = node.name()
        if kind.startswith(_PRODUCTS):
            return False
        if kind.startswith(_PROJECTIONS):
            projections += 1
        else:
            waiting += [before for before, _ in node.next_functions]
    return projections == 1


def _sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> SdpaCall:
    mask: Literal["none", "causal", "bool", "float"] = "causal" if is_causal else "none"
    if attn_mask is not None:
        mask = "bool" if attn_mask.dtype == torch.bool else "float"
    return SdpaCall(
        tuple(query.shape),
        tuple(key.shape),
        mask,
        enable_gqa,
        _measure_deviation(query, key, scale),
    )


def _measure_deviation(query: Tensor, key: Tensor, scale: float | None) -> float:
    # Neither autograd nor a recorder of kernels sees these computations.
    with torch.no_grad(), _disable_current_modes():
        heads = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
        scores = (
            query @ heads.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        )
        return float(scores.double().std()) if scores.numel() > 1 else 0.0
