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

from patchgen.parts.loss.kernels import entropies_of, in_one_kernel, slopes_of
from patchgen.parts.loss.states import FromStates


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_losses", mutates_args=())
def linear_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross entropies and logsumexps of the rows of `states @ weight.T`; logits of a lone chunk."""
    weight, pairs = weight.to(states.dtype), []
    logits = states.new_empty(min(chunk, len(states)), len(weight))
    for some, own in zip(states.split(chunk), labels.split(chunk), strict=True):
        torch.mm(some, weight.T, out=logits[: len(some)])
        pairs.append(in_one_kernel(entropies_of, logits[: len(some)], own, cap))
    losses, log_sums = map(torch.cat, zip(*pairs, strict=True))
    return losses, log_sums, logits if len(pairs) == 1 else logits[:0].clone()


@linear_losses.register_fake
def _shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float = 0) -> Any:
    losses = torch.empty_like(labels, dtype=torch.promote_types(states.dtype, torch.float32))
    kept = states.new_empty(states.shape[0] if states.shape[0] <= chunk else 0, weight.shape[0])
    return losses, torch.empty_like(losses), kept


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_grads", mutates_args=())
def linear_grads(
    slopes: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of states and weight, in chunks of words: each row is written once."""
    states, weight, labels, log_sums, kept = saved
    of_states = torch.zeros_like(states, dtype=log_sums.dtype)
    of_weight = torch.empty_like(weight[:0] if frozen else weight, dtype=states.dtype)
    words = chunk * weight.shape[0] // max(1, states.shape[0]) // (4 if len(kept) else 1)
    words = words - words % 256 or max(1, words)  # a GPU is slow where rows end off 16 bytes
    for start in range(0, weight.shape[0], words):
        rows = weight[start : start + words].to(states.dtype)
        logits = kept[:, start : start + words].clone() if len(kept) else states @ rows.T
        slope = in_one_kernel(slopes_of, logits, labels - start, log_sums, slopes, cap)
        of_states += slope @ rows
        if not frozen:
            torch.mm(slope.T, states, out=of_weight[start : start + words])
    return of_states.to(states.dtype), of_weight.to(weight.dtype)


@linear_grads.register_fake
def _shapes_backward(
    slopes: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> Any:
    return torch.empty_like(saved[0]), torch.empty_like(saved[1][:0] if frozen else saved[1])


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output[1:])
    ctx.options = inputs[3:]


def _backward(ctx: Any, slopes: Tensor, *_: Any) -> Any:
    frozen = not ctx.needs_input_grad[1]
    return *linear_grads(slopes, ctx.saved_tensors, *ctx.options, frozen), None, None, None


linear_losses.register_autograd(_backward, setup_context=_setup_context)


class InChunks(FromStates):
    def token_losses(self, head: Any, cap: float | None) -> Any:
        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            return linear_losses(states, head.weight, labels, chunk, cap or 0.0)

        return losses if head.bias is None else None
