"""The operator of `linear`, for a layer with a bias."""

from typing import Any

import torch
from torch import Tensor

from patchgen.parts.loss.kernels import in_one_kernel, losses_and_grads
from patchgen.parts.loss.linear import add_product, linear_losses
from patchgen.parts.loss.states import FromStates, reads_weight


@torch.library.custom_op(f"{__name__.replace('.', '_')}::biased_losses", mutates_args=())
def biased_losses(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Tensor,
    token_weights: Tensor,
    chunk: int,
    computes_grads: bool,
    frozen: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`linear_losses` of `states @ weight.T + bias`; the gradient of the bias is the last."""
    narrow, narrow_bias = weight.to(states.dtype), bias.to(states.dtype)
    words = -(-len(weight) // 8) * 8  # rows that end off 16 bytes are slow
    buffer = states.new_empty(min(chunk, len(states)), words)[:, : len(weight)]
    losses = torch.empty_like(token_weights)
    grad_states = torch.zeros_like(states)
    grad_weight = torch.zeros_like(weight[:0] if frozen else weight, dtype=losses.dtype)
    grad_bias = torch.zeros_like(bias, dtype=losses.dtype)
    for start in range(0, len(states), chunk):
        tokens = slice(start, start + chunk)
        logits = buffer[: len(labels[tokens])]
        torch.addmm(narrow_bias, states[tokens], narrow.T, out=logits)
        operands = labels[tokens], token_weights[tokens], 0.0, computes_grads
        losses[tokens] = in_one_kernel(losses_and_grads, logits, *operands)
        if computes_grads:
            torch.mm(logits, narrow, out=grad_states[tokens])
            grad_bias += logits.sum(0, dtype=losses.dtype)
        if not frozen:
            add_product(grad_weight, logits.T, states[tokens])
    total = losses.where(token_weights != 0, 0).dot(token_weights)
    grad_weight, grad_bias = grad_weight.to(weight.dtype), grad_bias.to(bias.dtype)
    return losses, total, grad_states, grad_weight, grad_bias


@biased_losses.register_fake
def _biased_shapes(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Tensor,
    token_weights: Tensor,
    *options: Any,
) -> Any:
    *_, frozen = options
    losses = torch.empty_like(token_weights)
    grad_weight = torch.empty_like(weight[:0] if frozen else weight)
    total = losses.new_empty(())
    return losses, total, torch.empty_like(states), grad_weight, torch.empty_like(bias)


def _save_biased(ctx: Any, inputs: Any, output: Any) -> None:
    states, weight, bias, labels, _, ctx.chunk, ctx.is_summed, _ = inputs
    losses, total, *grads = output
    ctx.set_materialize_grads(False)  # they would be zeros, as many as the weight has
    ctx.mark_non_differentiable(losses if ctx.is_summed else total, *grads)
    ctx.save_for_backward(*(grads if ctx.is_summed else (states, weight, bias, labels)))


def _biased_backward(ctx: Any, grad_losses: Tensor, grad_total: Tensor, *_: Any) -> Any:
    if torch.is_grad_enabled():
        raise RuntimeError("this loss has no second derivative: config.loss_chunk_size = 0 has")
    if ctx.is_summed:
        grads = [grad * grad_total for grad in ctx.saved_tensors]
    else:
        options = ctx.chunk, True, not ctx.needs_input_grad[1]
        _, _, *grads = biased_losses(*ctx.saved_tensors, grad_losses, *options)
    return *grads, None, None, None, None, None


biased_losses.register_autograd(_biased_backward, setup_context=_save_biased)


class InBiasedChunks(FromStates):
    def token_losses(self, head: Any, cap: None) -> Any:
        def losses(states: Tensor, *operands: Tensor, chunk: int, computes_grads: bool) -> Any:
            frozen = not (computes_grads and head.weight.requires_grad)
            if head.bias is None:
                options = chunk, 0.0, computes_grads, frozen
                return linear_losses(states, head.weight, *operands, *options)
            operands = states, head.weight, head.bias, *operands
            return biased_losses(*operands, chunk, computes_grads, frozen)

        return losses if reads_weight(head) else None
