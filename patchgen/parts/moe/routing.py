"""Which experts a token goes to, and with what weight.

Axes: T tokens, E experts, K experts of one token, D features.
"""

from typing import Any

import torch
from torch import Tensor, nn


class MixtureRouter(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))
        self.top_k = config.num_experts_per_tok
        self.norm_topk_prob = config.norm_topk_prob

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (T, E) of tokens (T, D), and weights and numbers of their experts (T, K)."""
        dtype = torch.promote_types(hidden_states.dtype, torch.float32)
        # Autocast would compute the product in a narrow dtype.
        with torch.autocast(hidden_states.device.type, enabled=False):
            logits = nn.functional.linear(hidden_states.to(dtype), self.weight.to(dtype))
        top_k_weights, top_k_index = logits.softmax(-1).topk(self.top_k, dim=-1)
        if self.norm_topk_prob:
            top_k_weights = top_k_weights / top_k_weights.sum(-1, keepdim=True)
        return logits, top_k_weights, top_k_index
