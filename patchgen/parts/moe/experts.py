"""Experts as stacked weights, in the layout that transformers' interface of experts takes."""

from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.integrations import use_experts_implementation


@use_experts_implementation
class MixtureExperts(nn.Module):
    """Copies of one FFN, `act(gate(x)) * up(x)` or `act(up(x))` and a projection down."""

    def __init__(self, config: Any, inner: int, activation: Any, gated: bool, bias: bool) -> None:
        super().__init__()
        self.num_experts = config.num_experts
        self.act_fn = ACT2FN[activation] if isinstance(activation, str) else activation
        self.up_name = "gate_up_proj" if gated else "up_proj"
        up = (2 * inner if gated else inner, config.hidden_size)
        down = (config.hidden_size, inner)
        for name, shape in ((self.up_name, up), ("down_proj", down)):
            self.register_parameter(name, nn.Parameter(torch.empty(self.num_experts, *shape)))
            biases = nn.Parameter(torch.empty(self.num_experts, shape[0])) if bias else None
            self.register_parameter(f"{name}_bias", biases)

    def forward(self, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> torch.Tensor:
        """One expert after the other: what `experts_implementation` calls "eager"."""
        total = torch.zeros_like(hidden_states, dtype=top_k_weights.dtype)
        for expert in range(self.num_experts):
            token, place = torch.where(top_k_index == expert)
            states = self.linear(hidden_states[token], self.up_name, expert)
            states = self._apply_gate(states) if self.has_gate else self.act_fn(states)
            states = self.linear(states, "down_proj", expert)
            states = states * top_k_weights[token, place, None]
            total = total.index_add(0, token, states.to(total.dtype))
        return total.to(hidden_states.dtype)

    def linear(self, states: torch.Tensor, name: str, expert: int) -> torch.Tensor:
        weight, bias = getattr(self, name), getattr(self, f"{name}_bias")
        return nn.functional.linear(states, weight[expert], None if bias is None else bias[expert])
