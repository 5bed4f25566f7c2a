"""The operators of `linear`, for a layer with a bias."""

from typing import Any

import torch
from torch import Tensor, nn

from patchgen.parts.loss.kernels import cross_entropies, in_one_kernel, logits_to_grad
from patchgen.parts.loss.linear import linear_losses
from patchgen.parts.loss.states import FromStates, reads_weight


@torch.library.custom_op(f"{__name__.replace('.', '_')}::biased_losses", mutates_args=())
def biased_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`linear_losses`, of `states @ weight.T + bias`."""
    weight = weight.to(states.dtype)
    bias = bias.to(states.dtype)
    buffer = states.new_empty(min(chunk, len(states)), len(weight))
    losses, log_sums = [], []
    for chunk_states, chunk_labels in zip(states.split(chunk), labels.split(chunk), strict=True):
        logits = buffer[: len(chunk_states)]
        torch.addmm(bias, chunk_states, weight.T, out=logits)
        chunk_losses, chunk_sums = in_one_kernel(cross_entropies, logits, chunk_labels, 0.0)
        losses.append(chunk_losses)
        log_sums.append(chunk_sums)
    kept = buffer if len(losses) == 1 else buffer[:0].clone()
    return torch.cat(losses), torch.cat(log_sums), kept


@biased_losses.register_fake
def _biased_shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int, bias: Tensor) -> Any:
    losses = torch.empty_like(labels, dtype=torch.promote_types(states.dtype, torch.float32))
    kept = states.new_empty(states.shape[0] if states.shape[0] <= chunk else 0, weight.shape[0])
    return losses, torch.empty_like(losses), kept


@torch.library.custom_op(f"{__name__.replace('.', '_')}::biased_grads", mutates_args=())
def biased_grads(
    grad_losses: Tensor, saved: list[Tensor], chunk: int, frozen: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of states, weight and bias, in chunks of words."""
    states, weight, labels, bias, log_sums, kept = saved
    grad_states = torch.zeros_like(states, dtype=log_sums.dtype)
    grad_weight = torch.empty_like(weight[:0] if frozen else weight, dtype=states.dtype)
    grad_bias = torch.empty_like(bias)
    words = chunk * len(weight) // max(1, len(states)) // (4 if len(kept) else 1)
    words = words - words % 256 or max(1, words)  # a GPU is slow where rows end off 16 bytes
    for start in range(0, len(weight), words):
        rows = weight[start : start + words].to(states.dtype)
        if len(kept):
            logits = kept[:, start : start + words].clone()
        else:
            row_biases = bias[start : start + words].to(states.dtype)
            logits = nn.functional.linear(states, rows, row_biases)
        own_labels = labels - start
        grad = in_one_kernel(logits_to_grad, logits, own_labels, log_sums, grad_losses, 0.0)
        grad_bias[start : start + words] = grad.sum(0, dtype=log_sums.dtype)
        grad_states += grad @ rows
        if not frozen:
            torch.mm(grad.T, states, out=grad_weight[start : start + words])
    return grad_states.to(states.dtype), grad_weight.to(weight.dtype), grad_bias


@biased_grads.register_fake
def _biased_shapes_backward(
    grad_losses: Tensor, saved: list[Tensor], chunk: int, frozen: bool
) -> Any:
    states, weight, _, bias, *_ = saved
    grad_weight = torch.empty_like(weight[:0] if frozen else weight)
    return torch.empty_like(states), grad_weight, torch.empty_like(bias)


def _save_biased(ctx: Any, inputs: Any, output: Any) -> None:
    states, weight, labels, ctx.chunk, bias = inputs
    ctx.save_for_backward(states, weight, labels, bias, *output[1:])


def _biased_backward(ctx: Any, grad_losses: Tensor, *_: Any) -> Any:
    frozen = not ctx.needs_input_grad[1]
    grads = biased_grads(grad_losses, ctx.saved_tensors, ctx.chunk, frozen)
    grad_states, grad_weight, grad_bias = grads
    return grad_states, grad_weight, None, None, grad_bias


biased_losses.register_autograd(_biased_backward, setup_context=_save_biased)


class InBiasedChunks(FromStates):
    def token_losses(self, head: Any, cap: None) -> Any:
        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            if head.bias is None:
                return linear_losses(states, head.weight, labels, chunk)
            return biased_losses(states, head.weight, labels, chunk, head.bias)

        return losses if reads_weight(head) else None
