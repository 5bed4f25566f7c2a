"""What is added to a model's loss so that its routers use all experts, and stay small."""

from typing import Any

import torch
from torch import Tensor
from transformers.loss.loss_utils import ForCausalLMLoss
from transformers.modeling_outputs import MoeCausalLMOutputWithPast
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func


def z_loss(logits: tuple[Tensor, ...], attention_mask: Tensor | None) -> Tensor:
    """The router z-loss of real tokens: the mean square of the logsumexp (arXiv:2202.08906)."""
    z_losses = torch.cat(logits).logsumexp(-1).square().view(len(logits), -1)
    if attention_mask is None:
        return z_losses.mean()
    weights = attention_mask.reshape(-1).to(z_losses)
    return (z_losses * weights).sum() / (weights.sum() * len(logits)).clamp(min=1)


def with_router_losses(
    model: Any, output: Any, outputs: Any, mask: Any, labels: Any, num_items_in_batch: Any = None
) -> Any:
    """`output` of a head with the logits of its routers, and in training with their losses."""
    logits, config = outputs.get("router_logits"), model.config
    if logits is None:
        return output
    output = MoeCausalLMOutputWithPast(**output, router_logits=logits)
    if labels is None or not model.training:
        return output
    mask = mask if isinstance(mask, Tensor) and mask.numel() == len(logits[0]) else None
    balance = load_balancing_loss_func(logits, config.num_experts, config.num_experts_per_tok, mask)
    z = z_loss(logits, mask)
    output.aux_loss = config.router_aux_loss_coef * balance + config.router_z_loss_coef * z
    # Micro-batches are summed: each adds its share of the labels, as `Trainer` counts them.
    counted = labels[..., 1:] if model.loss_function is ForCausalLMLoss else labels
    share = 1 if num_items_in_batch is None else (counted != -100).sum() / num_items_in_batch
    output.loss = output.loss + (output.aux_loss * share).to(output.loss)
    return output
