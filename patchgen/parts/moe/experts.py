"""Experts as stacked weights, run by torch's grouped matrix product, or one after the other.

Axes: as in `patchgen.parts.grouped`.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from patchgen.parts.grouped import grouped_linear, pairs_of


class MixtureExperts(nn.Module):
    """Copies of one FFN, `act(gate(x)) * up(x)` or `act(up(x))` and a projection down, under transformers' names."""

    # What transformers' own implementations of experts ask.
    is_transposed = False
    is_concatenated = True
    has_post_expert_norm = False
    _is_expert_parallel = False

    def __init__(self, config: Any, inner: int, activation: Any, gated: bool, bias: bool) -> None:
        super().__init__()
        self.config = config
        self.num_experts = config.num_experts
        self.hidden_dim = config.hidden_size
        self.intermediate_dim = inner
        self.has_gate = gated
        self.has_bias = bias
        self.act_fn = ACT2FN[activation] if isinstance(activation, str) else activation
        rows = 2 * inner if gated else inner
        self.up_name = "gate_up_proj" if gated else "up_proj"
        self.register_parameter(self.up_name, nn.Parameter(torch.empty(self.num_experts, rows, self.hidden_dim)))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, self.hidden_dim, inner))
        if bias:
            self.register_parameter(f"{self.up_name}_bias", nn.Parameter(torch.empty(self.num_experts, rows)))
            self.down_proj_bias = nn.Parameter(torch.empty(self.num_experts, self.hidden_dim))

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """The sum of each token's experts, (T, D), by `top_k_weights` (T, K)."""
        name = getattr(self.config, "_experts_implementation", None)
        if name in (None, "grouped_mm"):
            return grouped_experts(self, hidden_states, top_k_index, top_k_weights)
        if name == "eager":
            return looped_experts(self, hidden_states, top_k_index, top_k_weights)
        run = ALL_EXPERTS_FUNCTIONS.get_interface(name, looped_experts)
        return run(self, hidden_states, top_k_index, top_k_weights)

    def activated(self, up: Tensor) -> Tensor:
        return self._apply_gate(up) if self.has_gate else self.act_fn(up)

    def _apply_gate(self, gate_up_out: Tensor) -> Tensor:
        gate, up = gate_up_out.chunk(2, dim=-1)
        return self.act_fn(gate) * up

    def weights(self) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Up and down, each with its bias if there is one."""
        up, up_bias = getattr(self, self.up_name), getattr(self, f"{self.up_name}_bias", None)
        return up, up_bias, self.down_proj, getattr(self, "down_proj_bias", None)


def looped_experts(experts: Any, x_TD: Tensor, choice_TK: Tensor, gates_TK: Tensor) -> Tensor:
    """The reference: each expert's own tokens through its own weights, one expert after the other."""
    up, up_bias, down, down_bias = experts.weights()
    total_TD, dtype = torch.zeros(x_TD.shape, dtype=gates_TK.dtype, device=x_TD.device), x_TD.dtype
    for expert in range(experts.num_experts):
        token, place = torch.where(choice_TK == expert)
        inner = F.linear(x_TD[token], up[expert], None if up_bias is None else up_bias[expert])
        out = F.linear(experts.activated(inner), down[expert], None if down_bias is None else down_bias[expert])
        total_TD, dtype = total_TD.index_add(0, token, out * gates_TK[token, place, None]), out.dtype
    return total_TD.to(dtype)


def grouped_experts(experts: Any, x_TD: Tensor, choice_TK: Tensor, gates_TK: Tensor) -> Tensor:
    """The same with two products for all experts."""
    up, up_bias, down, down_bias = experts.weights()
    pairs = pairs_of(choice_TK, experts.num_experts)
    inner_PF = grouped_linear(pairs.take(x_TD), up, up_bias, pairs)
    out_PD = grouped_linear(experts.activated(inner_PF), down, down_bias, pairs)
    # Summed in the gates' dtype, token by token: the order does not depend on the device.
    return (pairs.back(out_PD) * gates_TK[..., None]).sum(1).to(out_PD.dtype)
