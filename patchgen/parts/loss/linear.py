"""Cross entropy of a linear layer's logits, which are computed for some tokens or words at a time.

The functions are operators of torch, so that `torch.compile` does not trace them.  Traced, their
loops would be unrolled for one number of tokens, and the forward pass would keep the logits that
the backward pass computes again.  Each is named after its file, so that no two files share one.
"""

from typing import Any

import torch
from torch import Tensor, nn

from patchgen.parts.loss.states import loss_without_logits


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_losses", mutates_args=())
def linear_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """Cross entropies and logsumexps of the rows of `states @ weight.T`, in chunks of tokens."""
    wide = torch.promote_types(states.dtype, torch.float32)
    weight, losses, log_sums = weight.to(states.dtype), [], []
    for some, own in zip(states.split(chunk), labels.split(chunk), strict=True):
        logits = nn.functional.linear(some, weight).to(wide)
        log_sums.append(logits.logsumexp(-1))
        losses.append(log_sums[-1] - logits.gather(-1, own[:, None]).squeeze(-1))
    return torch.cat(losses), torch.cat(log_sums)


@linear_losses.register_fake
def _shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int) -> Any:
    wide = torch.promote_types(states.dtype, torch.float32)
    return torch.empty_like(labels, dtype=wide), torch.empty_like(labels, dtype=wide)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::linear_grads", mutates_args=())
def linear_grads(
    slopes: Tensor, saved: list[Tensor], chunk: int, frozen: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of states and weight, in chunks of words: each row is written once."""
    states, weight, labels, log_sums = saved
    of_states = torch.zeros_like(states, dtype=log_sums.dtype)
    of_weight = torch.empty_like(weight[:0] if frozen else weight)
    words = max(1, chunk * weight.shape[0] // max(1, states.shape[0]))
    for start in range(0, weight.shape[0], words):
        rows = weight[start : start + words].to(states.dtype)
        slope = (nn.functional.linear(states, rows) - log_sums[:, None]).exp_()
        place = labels[:, None] - start
        here = (place >= 0) & (place < rows.shape[0])
        slope.scatter_add_(1, place.clamp(0, rows.shape[0] - 1), -here.to(slope.dtype))
        slope = slope.mul_(slopes[:, None]).to(states.dtype)
        of_states += slope @ rows
        if not frozen:
            of_weight[start : start + words] = slope.T @ states
    return of_states.to(states.dtype), of_weight


@linear_grads.register_fake
def _shapes_backward(slopes: Tensor, saved: list[Tensor], chunk: int, frozen: bool) -> Any:
    return torch.empty_like(saved[0]), torch.empty_like(saved[1][:0] if frozen else saved[1])


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.chunk = inputs[3]


def _backward(ctx: Any, slopes: Tensor, _: Tensor) -> Any:
    of_states, of_weight = linear_grads(
        slopes, ctx.saved_tensors, ctx.chunk, not ctx.needs_input_grad[1]
    )
    return of_states, of_weight if ctx.needs_input_grad[1] else None, None, None


linear_losses.register_autograd(_backward, setup_context=_setup_context)


class InChunks:
    def loss_from_states(self, head: Any, states: Tensor, labels: Any) -> Any:
        return loss_without_logits(self, head, states, labels, linear_losses)
