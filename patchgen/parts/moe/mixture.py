"""The module that stands where an FFN stood."""

from typing import Any

import torch
from torch import nn

from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.routing import MixtureRouter


def has_experts(config: Any, layer_idx: int) -> bool:
    """Whether this layer has experts: the last of every `moe_every`, as in GShard."""
    return bool((layer_idx + 1) % config.moe_every == 0)


class Mixture(nn.Module):
    """An FFN of experts: (..., D) to (..., D)."""

    def __init__(
        self, config: Any, *, gated: bool, bias: bool, inner: int = 0, activation: Any = None
    ) -> None:
        super().__init__()
        least = 1 + config.norm_topk_prob  # a single gate that is normalized is always one
        if not least <= config.num_experts_per_tok <= config.num_experts:
            raise ValueError(f"num_experts_per_tok is from {least} to num_experts")
        self.router = MixtureRouter(config)
        inner, activation = inner or config.intermediate_size, activation or config.hidden_act
        self.experts = MixtureExperts(config, inner, activation, gated, bias)
        self.experts.has_gate, self.experts.has_bias = gated, bias

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        _, top_k_weights, top_k_index = self.router(rows)
        return self.experts(rows, top_k_index, top_k_weights).view(hidden_states.shape)
