"""Cross entropy of a linear layer's logits, which are computed for some tokens or words at a time.

The functions are operators of torch, so that `torch.compile` does not trace them.  Traced, their
loops would be unrolled for one number of tokens, and the forward pass would keep the logits that
the backward pass computes again.  Each is named after its file, so that no two files share one.

What happens to logits between two products is compiled by inductor, inside the operator, when there
first are as many as are worth a compiler (`kernels.py`).  Logits are capped where `cap` is not 0:
`cap * tanh(logits / cap)` in float32.
"""

from typing import Any

import torch
from torch import Tensor

from patchgen.parts.loss.kernels import cross_entropies, in_one_kernel, logits_to_grad
from patchgen.parts.loss.states import FromStates, reads_weight


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_losses", mutates_args=())
def linear_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross entropies and logsumexps of the rows of `states @ weight.T`; logits of a lone chunk."""
    weight = weight.to(states.dtype)
    buffer = states.new_empty(min(chunk, len(states)), len(weight))
    losses, log_sums = [], []
    for chunk_states, chunk_labels in zip(states.split(chunk), labels.split(chunk), strict=True):
        logits = buffer[: len(chunk_states)]
        torch.mm(chunk_states, weight.T, out=logits)
        chunk_losses, chunk_sums = in_one_kernel(cross_entropies, logits, chunk_labels, cap)
        losses.append(chunk_losses)
        log_sums.append(chunk_sums)
    kept = buffer if len(losses) == 1 else buffer[:0].clone()
    return torch.cat(losses), torch.cat(log_sums), kept


@linear_losses.register_fake
def _shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float = 0) -> Any:
    losses = torch.empty_like(labels, dtype=torch.promote_types(states.dtype, torch.float32))
    kept = states.new_empty(states.shape[0] if states.shape[0] <= chunk else 0, weight.shape[0])
    return losses, torch.empty_like(losses), kept


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_grads", mutates_args=())
def linear_grads(
    grad_losses: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of states and weight, in chunks of words: each row is written once."""
    states, weight, labels, log_sums, kept = saved
    grad_states = torch.zeros_like(states, dtype=log_sums.dtype)
    grad_weight = torch.empty_like(weight[:0] if frozen else weight, dtype=states.dtype)
    words = chunk * len(weight) // max(1, len(states)) // (4 if len(kept) else 1)
    words = words - words % 256 or max(1, words)  # a GPU is slow where rows end off 16 bytes
    for start in range(0, len(weight), words):
        rows = weight[start : start + words].to(states.dtype)
        if len(kept):
            logits = kept[:, start : start + words].clone()
        else:
            logits = states @ rows.T
        own_labels = labels - start
        grad = in_one_kernel(logits_to_grad, logits, own_labels, log_sums, grad_losses, cap)
        grad_states += grad @ rows
        if not frozen:
            torch.mm(grad.T, states, out=grad_weight[start : start + words])
    return grad_states.to(states.dtype), grad_weight.to(weight.dtype)


@linear_grads.register_fake
def _shapes_backward(
    grad_losses: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> Any:
    states, weight, *_ = saved
    return torch.empty_like(states), torch.empty_like(weight[:0] if frozen else weight)


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    states, weight, labels, *ctx.options = inputs
    ctx.save_for_backward(states, weight, labels, *output[1:])


def _backward(ctx: Any, grad_losses: Tensor, *_: Any) -> Any:
    frozen = not ctx.needs_input_grad[1]
    grads = linear_grads(grad_losses, ctx.saved_tensors, *ctx.options, frozen)
    return *grads, None, None, None


linear_losses.register_autograd(_backward, setup_context=_setup_context)


class InChunks(FromStates):
    def token_losses(self, head: Any, cap: float | None) -> Any:
        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            return linear_losses(states, head.weight, labels, chunk, cap or 0.0)

        return losses if reads_weight(head) and head.bias is None else None
