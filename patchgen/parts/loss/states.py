"""What a model's forward asks of its loss: a function that needs no logits, and their place in a tuple."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.loss.loss_utils import ForCausalLMLoss


def loss_without_logits(
    model: Any, head: Any, states: Tensor, labels: Any, entropies: Any, bias: Any = None
) -> Any:
    """`model.loss_function` of `head(states)`, which it does not need; None where somebody else does."""
    hooks = (
        head._forward_hooks
        or head._forward_pre_hooks
        or head._backward_hooks
        or head._backward_pre_hooks
    )
    # A layer with an adapter, a quantised or a sharded one has to be called.
    plain = (
        type(head) is nn.Linear
        and type(head.weight.data) is Tensor
        and "forward" not in vars(head)
        and not hooks
    )
    chunk = getattr(model.config, "loss_chunk_size", None)
    known = plain and head.bias is bias and chunk != 0 and model.loss_function is ForCausalLMLoss
    if not (known and model.training and labels is not None and labels.shape == states.shape[:-1]):
        return None
    return partial(
        causal_loss, states, head.weight, chunk or max(1, 2**27 // head.out_features), entropies
    )


def causal_loss(
    states: Tensor,
    weight: Tensor,
    chunk: int,
    entropies: Any,
    logits: None,
    labels: Tensor,
    *_: Any,
    **kwargs: Any,
) -> Tensor:
    """`ForCausalLMLoss` of `states @ weight.T`, which exists for `chunk` tokens at a time, or as much of it."""
    ignore_index, shift_labels = kwargs.get("ignore_index", -100), kwargs.get("shift_labels")
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    if torch.is_autocast_enabled(states.device.type):
        states = states.to(torch.get_autocast_dtype(states.device.type))
    labels = shift_labels.flatten().to(states.device)
    counted = labels != ignore_index
    losses = entropies(states.flatten(0, -2), weight, labels.where(counted, 0), chunk)[0]
    items = kwargs.get("num_items_in_batch")
    items = counted.sum() if items is None else torch.as_tensor(items, device=states.device)
    return losses.where(counted, 0).sum().float() / items


def with_place_for_logits(outputs: Any) -> Any:
    """`outputs`, whose tuple has None where logits would be, and not the next field."""
    outputs["logits"] = outputs.logits
    for name in [name for name in outputs.__dataclass_fields__ if name in outputs]:
        outputs.move_to_end(name)
    return outputs
