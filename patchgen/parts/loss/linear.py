"""Cross entropy of a linear layer's logits, which exist for some tokens at a time.

Where the losses are summed, the gradients are computed in the forward pass: the logits of a chunk
become their gradient, and are multiplied with states and weight while they are there.  That takes
three products, as many as with all logits at hand, and keeps two gradients between the passes.
Losses that are wanted one by one take four: the backward pass computes the logits again.

The function is an operator of torch, so that `torch.compile` does not trace it.  Traced, its loop
would be unrolled for one number of tokens.  It is named after its file, so that no two files share
one.  What happens to logits between two products is compiled by inductor, inside the operator, when
there first are as many as are worth a compiler (`kernels.py`).  Logits are capped where `cap` is
not 0: `cap * tanh(logits / cap)` in float32.
"""

from typing import Any

import torch
from torch import Tensor

from patchgen.parts.loss.kernels import in_one_kernel, losses_and_grads
from patchgen.parts.loss.states import FromStates, reads_weight


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add `left @ right` to `total`, which may be wider."""
    if total.dtype == left.dtype:
        torch.addmm(total, left, right, out=total)
    elif total.is_cuda and hasattr(torch.ops.aten.addmm, "dtype_out"):  # of torch 2.8
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total += left @ right


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_losses", mutates_args=())
def linear_losses(
    states: Tensor,
    weight: Tensor,
    labels: Tensor,
    token_weights: Tensor,
    chunk: int,
    cap: float,
    computes_grads: bool,
    frozen: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropies of the rows of `states @ weight.T`, and their sum by the weights of tokens.

    Then the gradients of that sum where it computes them: of states, and of a weight that is not
    frozen.
    """
    narrow = weight.to(states.dtype)
    words = -(-len(weight) // 8) * 8  # rows that end off 16 bytes are slow
    buffer = states.new_empty(min(chunk, len(states)), words)[:, : len(weight)]
    losses = torch.empty_like(token_weights)
    grad_states = torch.zeros_like(states)
    grad_weight = torch.zeros_like(weight[:0] if frozen else weight, dtype=losses.dtype)
    for start in range(0, len(states), chunk):
        tokens = slice(start, start + chunk)
        logits = buffer[: len(labels[tokens])]
        torch.mm(states[tokens], narrow.T, out=logits)
        operands = labels[tokens], token_weights[tokens], cap, computes_grads
        losses[tokens] = in_one_kernel(losses_and_grads, logits, *operands)
        if computes_grads:
            torch.mm(logits, narrow, out=grad_states[tokens])
        if not frozen:
            add_product(grad_weight, logits.T, states[tokens])
    total = losses.where(token_weights != 0, 0).dot(token_weights)
    return losses, total, grad_states, grad_weight.to(weight.dtype)


@linear_losses.register_fake
def _shapes(
    states: Tensor, weight: Tensor, labels: Tensor, token_weights: Tensor, *options: Any
) -> Any:
    *_, frozen = options
    losses = torch.empty_like(token_weights)
    grad_weight = torch.empty_like(weight[:0] if frozen else weight)
    return losses, losses.new_empty(()), torch.empty_like(states), grad_weight


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    states, weight, labels, _, *ctx.options, ctx.is_summed, _ = inputs
    losses, total, *grads = output
    ctx.set_materialize_grads(False)  # they would be zeros, as many as the weight has
    ctx.mark_non_differentiable(losses if ctx.is_summed else total, *grads)
    ctx.save_for_backward(*(grads if ctx.is_summed else (states, weight, labels)))


def _backward(ctx: Any, grad_losses: Tensor, grad_total: Tensor, *_: Any) -> Any:
    if torch.is_grad_enabled():
        raise RuntimeError("this loss has no second derivative: config.loss_chunk_size = 0 has")
    if ctx.is_summed:
        grads = [grad * grad_total for grad in ctx.saved_tensors]
    else:
        options = *ctx.options, True, not ctx.needs_input_grad[1]
        _, _, *grads = linear_losses(*ctx.saved_tensors, grad_losses, *options)
    return *grads, None, None, None, None, None, None


linear_losses.register_autograd(_backward, setup_context=_setup_context)


class InChunks(FromStates):
    def token_losses(self, head: Any, cap: float | None) -> Any:
        def losses(states: Tensor, *operands: Tensor, chunk: int, computes_grads: bool) -> Any:
            frozen = not (computes_grads and head.weight.requires_grad)
            options = chunk, cap or 0.0, computes_grads, frozen
            return linear_losses(states, head.weight, *operands, *options)

        return losses if reads_weight(head) and head.bias is None else None
