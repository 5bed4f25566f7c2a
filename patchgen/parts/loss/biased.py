"""The operators of `linear`, for a layer with a bias."""

from typing import Any

import torch
from torch import Tensor, nn

from patchgen.parts.loss.kernels import entropies_of, in_one_kernel, slopes_of
from patchgen.parts.loss.linear import linear_losses
from patchgen.parts.loss.states import FromStates


@torch.library.custom_op(f"{__name__.replace('.', '_')}::biased_losses", mutates_args=())
def biased_losses(
    states: Tensor, weight: Tensor, labels: Tensor, chunk: int, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`linear_losses`, of `states @ weight.T + bias`."""
    weight, bias, pairs = weight.to(states.dtype), bias.to(states.dtype), []
    logits = states.new_empty(min(chunk, len(states)), len(weight))
    for some, own in zip(states.split(chunk), labels.split(chunk), strict=True):
        torch.addmm(bias, some, weight.T, out=logits[: len(some)])
        pairs.append(in_one_kernel(entropies_of, logits[: len(some)], own, 0.0))
    losses, log_sums = map(torch.cat, zip(*pairs, strict=True))
    return losses, log_sums, logits if len(pairs) == 1 else logits[:0].clone()


@biased_losses.register_fake
def _biased_shapes(states: Tensor, weight: Tensor, labels: Tensor, chunk: int, bias: Tensor) -> Any:
    losses = torch.empty_like(labels, dtype=torch.promote_types(states.dtype, torch.float32))
    kept = states.new_empty(states.shape[0] if states.shape[0] <= chunk else 0, weight.shape[0])
    return losses, torch.empty_like(losses), kept


@torch.library.custom_op(f"{__name__.replace('.', '_')}::biased_grads", mutates_args=())
def biased_grads(
    slopes: Tensor, saved: list[Tensor], chunk: int, frozen: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of states, weight and bias, in chunks of words."""
    states, weight, labels, bias, log_sums, kept = saved
    of_states = torch.zeros_like(states, dtype=log_sums.dtype)
    of_weight = torch.empty_like(weight[:0] if frozen else weight, dtype=states.dtype)
    of_bias = torch.empty_like(bias)
    words = chunk * weight.shape[0] // max(1, states.shape[0]) // (4 if len(kept) else 1)
    words = words - words % 256 or max(1, words)  # a GPU is slow where rows end off 16 bytes
    for start in range(0, weight.shape[0], words):
        rows = weight[start : start + words].to(states.dtype)
        logits = kept[:, start : start + words].clone()
        if not len(kept):
            of_rows = bias[start : start + words].to(states.dtype)
            logits = nn.functional.linear(states, rows, of_rows)
        slope = in_one_kernel(slopes_of, logits, labels - start, log_sums, slopes, 0.0)
        of_bias[start : start + words] = slope.sum(0, dtype=log_sums.dtype)
        of_states += slope @ rows
        if not frozen:
            torch.mm(slope.T, states, out=of_weight[start : start + words])
    return of_states.to(states.dtype), of_weight.to(weight.dtype), of_bias


@biased_grads.register_fake
def _biased_shapes_backward(slopes: Tensor, saved: list[Tensor], chunk: int, frozen: bool) -> Any:
    of_weight = torch.empty_like(saved[1][:0] if frozen else saved[1])
    return torch.empty_like(saved[0]), of_weight, torch.empty_like(saved[3])


def _save_biased(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], inputs[4], *output[1:])
    ctx.chunk = inputs[3]


def _biased_backward(ctx: Any, slopes: Tensor, *_: Any) -> Any:
    frozen = not ctx.needs_input_grad[1]
    of_states, of_weight, of_bias = biased_grads(slopes, ctx.saved_tensors, ctx.chunk, frozen)
    return of_states, of_weight, None, None, of_bias


biased_losses.register_autograd(_biased_backward, setup_context=_save_biased)


class InBiasedChunks(FromStates):
    def token_losses(self, head: Any, cap: None) -> Any:
        def losses(states: Tensor, labels: Tensor, chunk: int) -> Any:
            if head.bias is None:
                return linear_losses(states, head.weight, labels, chunk)
            return biased_losses(states, head.weight, labels, chunk, head.bias)

        return losses
