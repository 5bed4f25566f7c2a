"""The loss of a head that computes no logits."""

import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.parts.loss.deferred import defer


def reads_weight(head: Any) -> bool:
    """Whether `head` is a linear layer whose weight a loss may read in the place of its logits."""
    if "forward" in vars(head):  # tensor parallelism has split it
        return False
    if hasattr(head, "unshard"):  # FSDP2 has made it a group, and gathers the weight in its hooks
        return isinstance(head, nn.Linear) and type(head).__name__ == "FSDPLinear"
    is_plain = type(head) is nn.Linear and type(head.weight.data) is Tensor
    return is_plain and not has_hooks(head)


def has_hooks(head: Any) -> bool:
    forward = head._forward_hooks or head._forward_pre_hooks
    return bool(forward or head._backward_hooks or head._backward_pre_hooks)


def call_instead(head: Any, forward: Any, *operands: Tensor, **options: Any) -> Any:
    """Call `forward` in the place of the head's own, between the hooks of the head."""
    head.forward = partial(forward, **options)
    try:
        return head(*operands)
    finally:
        del head.forward


class FromStates:
    def loss_from_states(
        self: Any, head: Any, states: Tensor, labels: Any, compute_logits: Any, cap: Any = None
    ) -> Any:
        """A loss function that needs no logits, and deferred ones; or None, and the logits."""
        chunk = getattr(self.config, "loss_chunk_size", None)
        is_replica = hasattr(self, "_is_replica")  # of DataParallel, which gathers all outputs
        if labels is None or labels.shape != states.shape[:-1] or chunk == 0 or is_replica:
            return None, compute_logits(head)
        losses = self.token_losses(head, cap)
        if losses is None and not torch.compiler.is_compiling():
            what = f"{type(head).__name__} is sharded or quantized, or has hooks or an adapter"
            warnings.warn(f"the loss reads logits: {what}", stacklevel=2)
        if losses is None or self.loss_function is not ForCausalLMLoss:  # which may warn
            return None, compute_logits(head)
        if torch.is_autocast_enabled(states.device.type):
            states = states.to(torch.get_autocast_dtype(states.device.type))
        chunk = chunk or max(256, 2**27 // head.out_features // 256 * 256)
        compute = partial(compute_logits, head)
        if hasattr(head, "unshard"):
            compute = partial(compute_logits, head.forward)
            losses = partial(call_instead, head, losses)
        shape = *labels.shape, head.out_features
        logits = defer(compute, shape, states, (self, head), head.parameters())
        return partial(causal_loss, states, partial(losses, chunk=chunk)), logits


def causal_loss(
    states: Tensor, entropies: Any, logits: Any, labels: Tensor, *_: Any, **options: Any
) -> Tensor:
    """`ForCausalLMLoss` of the logits of `states`, which `entropies` computes in chunks."""
    ignore_index = options.get("ignore_index", -100)
    shift_labels = options.get("shift_labels")
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    labels = shift_labels.flatten().to(states.device)
    counted = labels != ignore_index
    items = options.get("num_items_in_batch")
    items = counted.sum() if items is None else torch.as_tensor(items, device=states.device)
    wide = torch.promote_types(states.dtype, torch.float32)
    token_weights = (counted.to(wide) / items).where(counted, 0)
    operands = labels.where(counted, 0), token_weights
    by_token = options.get("reduction") == "none"  # as DPO and GRPO need them
    # Small gradients in float16 are lost unless the backward pass scales them.
    is_summed = not by_token and states.dtype != torch.float16
    computes_grads = is_summed and torch.is_grad_enabled()
    losses, loss, *_ = entropies(states.flatten(0, -2), *operands, computes_grads=computes_grads)
    losses = losses.where(counted, 0)
    if by_token:
        return losses.view(shift_labels.shape)
    loss = loss if is_summed else losses.dot(token_weights)
    return loss.float().where(items != 0, torch.nan)
