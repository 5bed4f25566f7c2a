"""The loss of a head without a bias, whole or split between processes by tensor parallelism."""

from typing import Any

import torch
from torch import Tensor, distributed

from patchgen.parts.loss.linear import linear_grads, linear_losses
from patchgen.parts.loss.states import FromStates, is_split


class SplitLosses(torch.autograd.Function):
    """Cross entropies of the logits of all words; each process computes those of its own."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        labels: Tensor,
        chunk: int,
        cap: float,
        first: int,
        group: Any,
    ) -> Tensor:
        labels = labels - first
        is_own = (labels >= 0) & (labels < len(weight))
        losses, log_sums, kept = linear_losses(states, weight, labels.where(is_own, 0), chunk, cap)
        largest = log_sums.clone()
        distributed.all_reduce(largest, distributed.ReduceOp.MAX, group)
        own_sums = (log_sums - largest).exp()
        own_logits = (log_sums - losses).where(is_own, 0)
        sums, logits = shared = torch.stack([own_sums, own_logits])
        distributed.all_reduce(shared, group=group)
        log_sums = largest + sums.log()
        ctx.save_for_backward(states, weight, labels, log_sums, kept)
        ctx.options, ctx.group = (chunk, cap), group
        return log_sums - logits

    @staticmethod
    def backward(ctx: Any, grad_losses: Tensor) -> Any:
        saved, frozen = list(ctx.saved_tensors), not ctx.needs_input_grad[1]
        grad_states, grad_weight = linear_grads(grad_losses, saved, *ctx.options, frozen)
        distributed.all_reduce(grad_states, group=ctx.group)
        return grad_states, grad_weight, None, None, None, None, None


def split_losses(states: Tensor, weight: Any, labels: Tensor, chunk: int, cap: float) -> Tensor:
    """`linear_losses` of a weight of which each process has as many rows, the last ones fewer."""
    mesh = weight.device_mesh
    rows = -(-weight.shape[0] // mesh.size())
    first = rows * mesh.get_local_rank()
    group = mesh.get_group()
    return SplitLosses.apply(states, weight.to_local(), labels, chunk, cap, first, group)


class InChunks(FromStates):
    def token_losses(self, head: Any, cap: float | None) -> Any:
        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            if is_split(head):
                return (split_losses(states, head.weight, labels, chunk, cap or 0.0),)
            return linear_losses(states, head.weight, labels, chunk, cap or 0.0)

        return losses if head.bias is None else None
