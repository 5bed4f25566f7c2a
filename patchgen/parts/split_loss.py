# What a mixin calls by `super()` is that of the part `loss`.
# mypy: disable-error-code="misc"
"""The loss without logits, also of a head whose words tensor parallelism has split.

Where transformers' plan has given each process some rows of the head's weight, each computes logits
of its own words, a chunk at a time; three numbers a token go between the processes.  A whole head
takes the part `loss`, which this one stands before:

    class LlamaForCausalLM(SplitLoss, ChunkedLoss, llama.LlamaForCausalLM): ...

The parent's loss reads logits where the head has a bias, and in what `torch.compile` compiles.
"""

from typing import Any

import torch
from torch import Tensor, distributed

from patchgen.parts.loss.linear import linear_grads, linear_losses
from patchgen.parts.loss.states import has_hooks

__all__ = ["SplitLoss"]


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


def is_split(head: Any) -> bool:
    """Whether each process has some rows of the weight of `head`, by transformers' plan."""
    by_plan = getattr(head.forward, "__module__", "").startswith("transformers.distributed.")
    if not by_plan or has_hooks(head) or torch.compiler.is_compiling():
        return False
    placements = getattr(head.weight, "placements", ())
    return head.bias is None and [each.is_shard(0) for each in placements] == [True]


class SplitLoss:
    def token_losses(self, head: Any, cap: float | None) -> Any:
        if not is_split(head):
            return super().token_losses(head, cap)

        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            return (split_losses(states, head.weight, labels, chunk, cap or 0.0),)

        return losses
