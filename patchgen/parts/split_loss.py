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
from torch.autograd.function import once_differentiable

from patchgen.parts.loss.kernels import in_one_kernel
from patchgen.parts.loss.linear import add_product
from patchgen.parts.loss.states import has_hooks

__all__ = ["SplitLoss"]


class SplitLosses(torch.autograd.Function):
    """`linear_losses` of all words, of which each process has some.

    `labels` count from the first of its own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        labels: Tensor,
        token_weights: Tensor,
        chunk: int,
        cap: float,
        group: Any,
        computes_grads: bool,
        frozen: bool,
    ) -> tuple[Tensor, Tensor]:
        losses, total, *grads = split_losses(
            states, weight, labels, token_weights, chunk, cap, group, computes_grads, frozen
        )
        ctx.options, ctx.is_summed = (chunk, cap, group), computes_grads
        ctx.mark_non_differentiable(losses if computes_grads else total)
        ctx.save_for_backward(*(grads if computes_grads else (states, weight, labels)))
        return losses, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor, grad_total: Tensor) -> Any:
        if ctx.is_summed:
            grads = [grad * grad_total for grad in ctx.saved_tensors]
        else:
            states, weight, labels = ctx.saved_tensors
            chunk, cap, group = ctx.options
            frozen = not ctx.needs_input_grad[1]
            _, _, *grads = split_losses(
                states, weight, labels, grad_losses, chunk, cap, group, True, frozen
            )
        return *grads, None, None, None, None, None, None, None


def split_losses(
    states: Tensor,
    weight: Tensor,
    labels: Tensor,
    token_weights: Tensor,
    chunk: int,
    cap: float,
    group: Any,
    computes_grads: bool,
    frozen: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`linear_losses` of a group of processes."""
    narrow = weight.to(states.dtype)
    words = -(-len(weight) // 8) * 8  # rows that end off 16 bytes are slow
    buffer = states.new_empty(min(chunk, len(states)), words)[:, : len(weight)]
    losses = torch.empty_like(token_weights)
    grad_states = torch.zeros_like(states)
    grad_weight = torch.zeros_like(weight[:0] if frozen else weight, dtype=losses.dtype)
    for start in range(0, len(states), chunk):
        tokens = slice(start, start + chunk)
        own_labels = labels[tokens]
        logits = buffer[: len(own_labels)]
        torch.mm(states[tokens], narrow.T, out=logits)
        own_sums, own_logits = in_one_kernel(sums_and_logits, logits, own_labels, cap)
        log_sums, label_logits = reduce_words(own_sums, own_logits, group)
        losses[tokens] = log_sums - label_logits
        if computes_grads:
            operands = own_labels, log_sums, token_weights[tokens], cap
            in_one_kernel(logits_to_grad, logits, *operands)
            torch.mm(logits, narrow, out=grad_states[tokens])
        if not frozen:
            add_product(grad_weight, logits.T, states[tokens])
    if computes_grads:
        distributed.all_reduce(grad_states, group=group)
    total = losses.where(token_weights != 0, 0).dot(token_weights)
    return losses, total, grad_states, grad_weight.to(weight.dtype)


def sums_and_logits(logits: Tensor, labels: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    """The logsumexp of each row, and the logit of its label, or 0 where another process has it."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    wide = cap * torch.tanh(wide / cap) if cap else wide
    is_own = (labels >= 0) & (labels < logits.shape[1])
    label_logits = wide.gather(-1, labels.where(is_own, 0)[:, None]).squeeze(-1)
    return wide.logsumexp(-1), label_logits.where(is_own, 0)


def logits_to_grad(
    logits: Tensor, labels: Tensor, log_sums: Tensor, token_weights: Tensor, cap: float
) -> None:
    """`logits` become their gradient, by the logsumexp of all words."""
    wide = logits.to(log_sums.dtype)
    tanh = torch.tanh(wide / cap) if cap else 0.0
    grad = ((cap * tanh if cap else wide) - log_sums[:, None]).exp_()
    words = torch.arange(logits.shape[1], device=logits.device)
    grad.sub_((words == labels[:, None]).to(grad.dtype))
    logits.copy_(grad.mul_(token_weights[:, None] * (1 - tanh**2)))


def reduce_words(own_sums: Tensor, own_logits: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """The logsumexp over the words of all processes, and the logit of the label, of each token."""
    largest = own_sums.clone()
    distributed.all_reduce(largest, distributed.ReduceOp.MAX, group)
    shared = torch.stack([(own_sums - largest).exp(), own_logits])
    distributed.all_reduce(shared, group=group)
    sums, label_logits = shared
    return largest + sums.log(), label_logits


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

        mesh = head.weight.device_mesh
        rows = -(-head.weight.shape[0] // mesh.size())  # the last process may have fewer
        first = rows * mesh.get_local_rank()

        def losses(
            states: Tensor,
            labels: Tensor,
            token_weights: Tensor,
            *,
            chunk: int,
            computes_grads: bool,
        ) -> Any:
            frozen = not (computes_grads and head.weight.requires_grad)
            operands = states, head.weight.to_local(), labels - first, token_weights
            options = chunk, cap or 0.0, mesh.get_group(), computes_grads, frozen
            return SplitLosses.apply(*operands, *options)

        return losses
