"""Attention functions that a CPU does not have, and a user's own, to be asked for by name.

`flex_on_cpu()` lets flex attention run and train without a compiler.  `registered(...)` adds a
function to those of transformers.  `flash_reference` computes what FlashAttention does, with the
signature and the masks of transformers' own function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex
from transformers.integrations import flex_attention as integration
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from patchgen.verify.parts.planting import replaced

Attention = Callable[..., tuple[Tensor, Tensor | None]]
Masks = Callable[..., Any]


@functools.cache
def _traced() -> Callable[..., Any]:
    """Compiled once, for every model."""
    return torch.compile(flex.flex_attention, backend="aot_eager")


@contextmanager
def flex_on_cpu() -> Iterator[None]:
    """Flex attention by torch's reference, which has a backward pass on every device.

    torch refuses gradients on a CPU because its kernel has none there.  Without any compiling the
    gradient of a bias would be wrong under checkpointing: saved tensors no longer say that they
    need one.
    """

    def traced(was: Any) -> Any:
        return lambda training: _traced

    def accepted(was: Any) -> Any:
        return lambda query, key, value: None

    with ExitStack() as stack:
        stack.enter_context(replaced(integration, "WrappedFlexAttention", traced))
        stack.enter_context(replaced(flex, "_validate_device", accepted))
        yield


@contextmanager
def registered(name: str, function: Attention, masks: Masks) -> Iterator[list[dict[str, Any]]]:
    """Register `function` and `masks` under `name`; yields the keywords of each call."""
    calls: list[dict[str, Any]] = []

    def noted(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        **given: Any,
    ) -> tuple[Tensor, Tensor | None]:
        calls.append({"attention_mask": attention_mask, **given})
        return function(module, query, key, value, attention_mask, **given)

    AttentionInterface.register(name, noted)
    AttentionMaskInterface.register(name, masks)
    try:
        yield calls
    finally:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def _of_one_text(queries: int, keys: int, lengths: dict[str, Any]) -> Tensor:
    """Which keys are of a query's own text, where texts lie in one row behind each other.

    A kernel reads no more of a text than the longest that it is told of.
    """
    of_query, of_key = (lengths.get(f"cu_seq_lens_{side}") for side in "qk")
    if of_query is None or of_key is None:
        return torch.ones(1, 1, queries, keys, dtype=torch.bool)
    places: list[Tensor] = []
    for side, ends, number in (("q", of_query, queries), ("k", of_key, keys)):
        place = torch.arange(number)
        text = torch.searchsorted(ends[1:].contiguous().long(), place, right=True)
        longest = lengths.get(f"max_length_{side}")
        begins = ends.long()[text.clamp(max=len(ends) - 2)]
        read = place - begins < (number if longest is None else int(longest))
        places.append(torch.where(read, text, -1 - len(places)))
    return (places[0][:, None] == places[1][None, :])[None, None]


def flash_reference(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention over the tokens that the mask (rows, keys) keeps; without one, over all.

    What the kernels leave out is an error here: a bias of scores, sinks, a cap.
    """
    left_out = {**kwargs, "s_aux": s_aux, "softcap": softcap}
    for name in ("position_bias", "s_aux", "softcap"):
        if left_out.get(name) is not None:
            raise NotImplementedError(
                f"{type(module).__name__} gave `{name}`, which FlashAttention leaves out"
            )
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(
            f"{type(module).__name__} gave a mask of {attention_mask.dim()} axes to FlashAttention"
        )
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    queries, keys = query.shape[2], key.shape[2]
    back = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]
    visible = torch.ones(1, 1, queries, keys, dtype=torch.bool)
    if causal and queries > 1:
        visible = visible & (back >= 0)
    if sliding_window is not None:
        visible = visible & (back < sliding_window)
    visible = visible & _of_one_text(queries, keys, kwargs)
    if attention_mask is not None:
        visible = visible & attention_mask.bool()[:, None, None, :]
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query @ key.transpose(2, 3) * scaling).masked_fill(
        ~visible, torch.finfo(query.dtype).min
    )
    weights = nn.functional.dropout(scores.softmax(-1), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), None
