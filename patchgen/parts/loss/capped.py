"""The operators of `linear`, for logits that are capped: `cap * tanh(logits / cap)` in float32.

A cap of 0 is none.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from patchgen.parts.loss.states import loss_without_logits


@torch.library.custom_op(f"{__name__.replace('.', '_')}::capped_losses", mutates_args=())
def capped_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float
) -> tuple[Tensor, Tensor]:
    """Cross entropies and logsumexps of the rows of the capped logits, in chunks of tokens."""
    wide = torch.promote_types(states.dtype, torch.float32)
    weight, losses, log_sums = weight.to(states.dtype), [], []
    for some, own in zip(states.split(chunk), labels.split(chunk), strict=True):
        logits = nn.functional.linear(some, weight).to(wide)
        logits = cap * torch.tanh(logits / cap) if cap else logits
        log_sums.append(logits.logsumexp(-1))
        losses.append(log_sums[-1] - logits.gather(-1, own[:, None]).squeeze(-1))
    return torch.cat(losses), torch.cat(log_sums)


@capped_losses.register_fake
def _capped_shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int, cap: float) -> Any:
    wide = torch.promote_types(states.dtype, torch.float32)
    return torch.empty_like(labels, dtype=wide), torch.empty_like(labels, dtype=wide)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::capped_grads", mutates_args=())
def capped_grads(
    slopes: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> tuple[Tensor, Tensor]:
    states, weight, labels, log_sums = saved
    of_states = torch.zeros_like(states, dtype=log_sums.dtype)
    of_weight = torch.empty_like(weight[:0] if frozen else weight)
    words = max(1, chunk * weight.shape[0] // max(1, states.shape[0]))
    for start in range(0, weight.shape[0], words):
        rows = weight[start : start + words].to(states.dtype)
        logits = nn.functional.linear(states, rows).to(log_sums.dtype)
        capped = torch.tanh(logits / cap) if cap else 0
        slope = ((cap * capped if cap else logits) - log_sums[:, None]).exp_()
        place = labels[:, None] - start
        here = (place >= 0) & (place < rows.shape[0])
        slope.scatter_add_(1, place.clamp(0, rows.shape[0] - 1), -here.to(slope.dtype))
        slope = slope.mul_(slopes[:, None] * (1 - capped**2)).to(states.dtype)
        of_states += slope @ rows
        if not frozen:
            of_weight[start : start + words] = slope.T @ states
    return of_states.to(states.dtype), of_weight


@capped_grads.register_fake
def _capped_shapes_backward(
    slopes: Tensor, saved: list[Tensor], chunk: int, cap: float, frozen: bool
) -> Any:
    return torch.empty_like(saved[0]), torch.empty_like(saved[1][:0] if frozen else saved[1])


def _save_capped(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.chunk, ctx.cap = inputs[3:]


def _capped_backward(ctx: Any, slopes: Tensor, _: Tensor) -> Any:
    of_states, of_weight = capped_grads(
        slopes, ctx.saved_tensors, ctx.chunk, ctx.cap, not ctx.needs_input_grad[1]
    )
    return of_states, of_weight if ctx.needs_input_grad[1] else None, None, None, None


capped_losses.register_autograd(_capped_backward, setup_context=_save_capped)


class InCappedChunks:
    def loss_from_states(self, head: Any, states: Tensor, labels: Any, cap: Any) -> Any:
        return loss_without_logits(
            self, head, states, labels, partial(capped_losses, cap=cap or 0.0)
        )
