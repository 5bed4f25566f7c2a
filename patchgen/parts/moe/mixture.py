"""The module that stands where an FFN stood.

Axes: T tokens, E experts, K experts of one token, D features.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.routing import choose_experts, within_capacity


def has_experts(config: Any, layer_idx: int) -> bool:
    """Whether this layer is one of every `moe_every` that have experts: the last of them, as in GShard."""
    return bool((layer_idx + 1) % config.moe_every == 0)


class MixtureRouter(nn.Module):
    """Logits of the experts, in at least float32 whatever the model's dtype: (..., D) to (..., E)."""

    def __init__(self, experts: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, features))

    def forward(self, hidden_states: Tensor) -> Tensor:
        wide = torch.promote_types(hidden_states.dtype, torch.float32)
        # Autocast would narrow the product again.
        with torch.autocast(hidden_states.device.type, enabled=False):
            return F.linear(hidden_states.to(wide), self.weight.to(wide))


class Mixture(nn.Module):
    """An FFN of experts: (..., D) to (..., D).

    Raises ValueError for options that make no mixture.
    """

    def __init__(
        self, config: Any, *, gated: bool, bias: bool, inner: int | None = None, activation: Any = None
    ) -> None:
        super().__init__()
        refuse_unfit(config)
        self.config = config
        self.router = MixtureRouter(config.num_experts, config.hidden_size)
        inner = config.intermediate_size if inner is None else inner
        self.experts = MixtureExperts(config, inner, activation or config.hidden_act, gated, bias)
        # Pairs of a token and an expert that the last step of training left out; a tensor then.
        self.dropped: int | Tensor = 0

    def forward(self, hidden_states: Tensor) -> Tensor:
        logits_TE = self.router(hidden_states).reshape(-1, self.config.num_experts)
        gates_TK, choice_TK = choose_experts(logits_TE, self.config.num_experts_per_tok, self.config.norm_topk_prob)
        if self.training and self.config.capacity_factor is not None:
            kept_TK = within_capacity(choice_TK, self.config.num_experts, self.config.capacity_factor)
            self.dropped = (~kept_TK).sum()
            gates_TK = gates_TK * kept_TK
        x_TD = hidden_states.reshape(-1, hidden_states.shape[-1])
        return self.experts(x_TD, choice_TK, gates_TK).view(hidden_states.shape)


def refuse_unfit(config: Any) -> None:
    """ValueError for a configuration of which no mixture can be made."""
    experts, k = config.num_experts, config.num_experts_per_tok
    if not 1 <= k <= experts:
        raise ValueError(f"num_experts_per_tok={k}: it is from 1 to num_experts={experts}")
    if k == 1 and config.norm_topk_prob:
        raise ValueError("num_experts_per_tok=1 with norm_topk_prob=True: a gate that is always one trains no router")
    if config.moe_every < 1:
        raise ValueError(f"moe_every={config.moe_every}: it takes a whole number from 1 on")
    if config.capacity_factor is not None and config.capacity_factor <= 0:
        raise ValueError(f"capacity_factor={config.capacity_factor}: it is above zero, or None for no limit")
    if getattr(config, "chunk_size_feed_forward", 0):
        raise ValueError("chunk_size_feed_forward: a mixture balances the load of whole sequences. Leave it at 0.")
