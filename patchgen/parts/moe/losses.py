"""What is added to a model's loss so that its routers use all experts, and stay small.

Axes: B rows, L tokens of a row, E experts.
"""

from collections.abc import Sequence
from dataclasses import field, fields, is_dataclass, make_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.loss.loss_utils import ForCausalLMLoss

ROUTER_FIELDS = ("router_logits", "aux_loss", "z_loss")
_WITH_ROUTER_FIELDS: dict[type, Any] = {}


def balance_loss(logits_BLE: Tensor, real_BL: Tensor | None, k: int) -> Tensor:
    """The load-balancing loss of one layer: 1 where the load is even, up to the number of experts over k.

    The sum over experts of the share of pairs that went there times the mean probability of it, times the number of
    experts (Fedus et al. 2021, arXiv:2101.03961, with the load of all k choices).  transformers' own is k times this,
    and takes the load of all layers as one.
    """
    experts = logits_BLE.shape[-1]
    chosen_BLE = F.one_hot(logits_BLE.topk(k, dim=-1).indices, experts).sum(-2)
    load_E = mean_of_real(chosen_BLE.to(logits_BLE.dtype), real_BL) / k
    return experts * (load_E * mean_of_real(logits_BLE.softmax(-1), real_BL)).sum()


def z_loss(logits_BLE: Tensor, real_BL: Tensor | None) -> Tensor:
    """The router z-loss of one layer: the mean square of log-sum-exp (Zoph et al. 2022, arXiv:2202.08906)."""
    return mean_of_real(logits_BLE.logsumexp(-1, keepdim=True).square(), real_BL)[0]


def mean_of_real(values_BLX: Tensor, real_BL: Tensor | None) -> Tensor:
    """The mean over real tokens, (X,)."""
    if real_BL is None:
        return values_BLX.flatten(0, -2).mean(0)
    real_BL1 = real_BL.to(values_BLX)[..., None]
    return (values_BLX * real_BL1).sum((0, 1)) / real_BL1.sum().clamp(min=1)


def router_losses(
    logits: Sequence[Tensor], attention_mask: Any, config: Any, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Balance and z-loss, each a mean over the layers that have a router."""
    of_layers = [(each, real_tokens(attention_mask, each)) for each in logits]
    balance = [balance_loss(each, real, config.num_experts_per_tok) for each, real in of_layers]
    size = [z_loss(each, real) for each, real in of_layers]
    return torch.stack([x.to(device) for x in balance]).mean(), torch.stack([x.to(device) for x in size]).mean()


def real_tokens(attention_mask: Any, logits_BLE: Tensor) -> Tensor | None:
    """Bool, (B, L); None where all tokens count.

    A mask of another shape tells what sees what, or is of tokens that were taken out before the layers: none of those
    that are left is known to be padding.
    """
    if not isinstance(attention_mask, Tensor) or attention_mask.dim() != 2:
        return None
    length = logits_BLE.shape[-2]
    real_BL = attention_mask[:, -length:].to(logits_BLE.device) != 0  # a prefix may have been put before the tokens
    return real_BL if real_BL.shape == logits_BLE.shape[:-1] else None


def with_router_fields(output: Any) -> Any:
    """`output`, of a class that has the fields of routers too.

    DDP and FSDP take outputs apart and make them anew, which a key that is no field does not survive.
    """
    kind = type(output)
    if torch.compiler.is_compiling() or not is_dataclass(kind):
        return output
    if kind not in _WITH_ROUTER_FIELDS:
        known = {each.name for each in fields(kind)}
        more = [(name, Any, field(default=None)) for name in ROUTER_FIELDS if name not in known]
        _WITH_ROUTER_FIELDS[kind] = make_dataclass(kind.__name__, more, bases=(kind,)) if more else kind
    return _WITH_ROUTER_FIELDS[kind](**output)


def with_router_losses(
    model: Any, output: Any, outputs: Any, attention_mask: Any, labels: Tensor | None, num_items_in_batch: Any = None
) -> Any:
    """`output` of a head with the `router_logits` of its base model's `outputs`, one (B, L, E) for each layer.

    In training with labels its loss has the router losses in it, and they stand beside it as `aux_loss` and `z_loss`.
    ValueError where they are wanted and no logits were recorded.
    """
    logits: Sequence[Tensor] = outputs.get("router_logits") or ()
    output = with_router_fields(output)
    if logits:
        output["router_logits"] = tuple(logits)
    weights = model.config.router_aux_loss_coef, model.config.router_z_loss_coef
    if labels is None or not model.training or not any(weights):
        return output
    if not logits:
        raise ValueError(
            "output_router_logits=False in training: the router losses need the logits. Set router_aux_loss_coef and "
            "router_z_loss_coef to 0 for a training without them."
        )
    output["aux_loss"], output["z_loss"] = router_losses(logits, attention_mask, model.config, output.loss.device)
    added = weights[0] * output["aux_loss"] + weights[1] * output["z_loss"]
    if num_items_in_batch is not None:
        # Of several micro-batches each adds the share that it has of the labels: their losses are summed.
        # Labels that are shifted lose the first of each row, as `Trainer` counts them.
        counted = labels[..., 1:] if model.loss_function is ForCausalLMLoss else labels
        added = added * ((counted != -100).sum().to(added.device) / num_items_in_batch)
    output["loss"] = output.loss + added.to(output.loss.dtype)
    return output
