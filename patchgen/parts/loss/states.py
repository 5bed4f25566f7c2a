"""The loss of a head that computes no logits."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.loss.loss_utils import ForCausalLMLoss

from patchgen.parts.loss.deferred import defer


class FromStates:
    def loss_from_states(
        self: Any, head: Any, states: Tensor, labels: Any, compute_logits: Any, cap: Any = None
    ) -> Any:
        """A loss function that needs no logits, and deferred ones; or None, and the logits."""
        chunk = getattr(self.config, "loss_chunk_size", None)
        hooked = head._forward_hooks or head._forward_pre_hooks or "forward" in vars(head)
        called = hooked or head._backward_hooks or head._backward_pre_hooks
        plain = type(head) is nn.Linear and type(head.weight.data) is Tensor and not called
        losses: Any = self.token_losses(head, cap) if plain and chunk != 0 else None
        # Replicas are of DataParallel, which gathers all outputs.  The loss function may warn.
        unfit = losses is None or labels is None or hasattr(self, "_is_replica")
        if unfit or labels.shape != states.shape[:-1] or self.loss_function is not ForCausalLMLoss:
            return None, compute_logits()
        if torch.is_autocast_enabled(states.device.type):
            states = states.to(torch.get_autocast_dtype(states.device.type))
        most = max(2**27, 2**11 * labels.numel())  # logits: below 2**11 words at a time it is slow
        chunk = chunk or max(256, most // head.out_features // 256 * 256)
        shape = *labels.shape, head.out_features
        logits = defer(compute_logits, shape, states, self, head.parameters())
        return partial(causal_loss, states, partial(losses, chunk=chunk)), logits


def causal_loss(
    states: Tensor, entropies: Any, logits: Any, labels: Tensor, *_: Any, **given: Any
) -> Tensor:
    """`ForCausalLMLoss` of the logits of `states`, which `entropies` computes in chunks."""
    ignore_index, shift_labels = given.get("ignore_index", -100), given.get("shift_labels")
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    labels = shift_labels.flatten().to(states.device)
    counted = labels != ignore_index
    losses = entropies(states.flatten(0, -2), labels=labels.where(counted, 0))[0].where(counted, 0)
    if given.get("reduction") == "none":  # of each token, as DPO and GRPO need them
        return losses.view(shift_labels.shape)
    items = given.get("num_items_in_batch")
    items = counted.sum() if items is None else torch.as_tensor(items, device=states.device)
    return losses.sum().float() / items
