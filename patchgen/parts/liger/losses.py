# What mixins read is the parent's.
# mypy: disable-error-code="attr-defined, misc"
"""The loss of each kind of head by Liger's fused linear cross entropy."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.parts.liger.kernels import liger
from patchgen.parts.loss.deferred import defer
from patchgen.parts.loss.heads import (
    AlwaysCappedHead,
    DividedHead,
    PlainHead,
    ScaledCappedHead,
    ScaledHead,
    SoftcappedHead,
)


class ByLiger:
    def loss_from_states(
        self, head: Any, states: Tensor, labels: Any, compute_logits: Any, cap: Any = None
    ) -> Any:
        """A loss function that needs no logits, and deferred ones; or None, and the logits."""
        hooked = head._forward_hooks or head._forward_pre_hooks or "forward" in vars(head)
        called = hooked or head._backward_hooks or head._backward_pre_hooks
        if called or not self.training or self.loss_function is not ForCausalLMLoss:
            return None, compute_logits(head)
        if labels is None or labels.shape != states.shape[:-1]:
            return None, compute_logits(head)
        if type(head) is not nn.Linear or type(head.weight.data) is not Tensor:
            raise ValueError(
                "Liger's loss reads the weight of a linear head, and what else "
                f"{type(head).__name__} has would not learn: leave the head out of the adapter, "
                "or use the part `loss`"
            )
        shape = *labels.shape, head.out_features
        logits = defer(partial(compute_logits, head), shape, states, (self,), head.parameters())
        return partial(liger_causal_loss, states, head, cap=cap), logits


def liger_causal_loss(
    states: Tensor, head: Any, logits: None, labels: Tensor, *_: Any, cap: Any, **kwargs: Any
) -> Tensor:
    """`ForCausalLMLoss` of the logits of `states`, which are never there as a whole."""
    ignore_index, shift_labels = kwargs.get("ignore_index", -100), kwargs.get("shift_labels")
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    items = kwargs.get("num_items_in_batch")
    loss = liger.liger_fused_linear_cross_entropy(
        states.flatten(0, -2),
        head.weight,
        shift_labels.flatten().to(states.device),
        bias=head.bias,
        ignore_index=ignore_index,
        reduction="mean" if items is None else "sum",
        softcap=cap,
    )
    return loss if items is None else loss / torch.as_tensor(items, device=loss.device)


class LigerLoss(ByLiger, PlainHead): ...


class LigerScaledLoss(ByLiger, ScaledHead): ...


class LigerDividedLoss(ByLiger, DividedHead): ...


class LigerSoftcappedLoss(ByLiger, SoftcappedHead): ...


class LigerAlwaysCappedLoss(ByLiger, AlwaysCappedHead): ...


class LigerScaledCappedLoss(ByLiger, ScaledCappedHead): ...
