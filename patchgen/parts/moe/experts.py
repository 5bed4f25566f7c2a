"""Experts as stacked weights, run by torch's grouped matrix product, or one after the other.

Axes: T tokens, K experts of one token, P = T * K pairs of both, E experts, D features, F inner features.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

# torch 2.10 has it public, 2.8 under a name of its own.
GROUPED_PRODUCT = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
GROUPED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


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
    """The same with two products for all experts: pairs are sorted by expert, and brought back afterwards."""
    up, up_bias, down, down_bias = experts.weights()
    tokens, k = choice_TK.shape
    expert_P, order_P = choice_TK.reshape(-1).sort(stable=True)
    # Every pair has an expert: no row of a product is left as torch found it in memory.
    ends_E = torch.searchsorted(expert_P, torch.arange(experts.num_experts, device=expert_P.device), right=True).int()
    inner_PF = grouped_linear(x_TD[order_P // k], up, up_bias, expert_P, ends_E)
    out_PD = grouped_linear(experts.activated(inner_PF), down, down_bias, expert_P, ends_E)
    back_P = torch.empty_like(order_P)
    back_P[order_P] = torch.arange(len(order_P), device=order_P.device)
    # Summed in the gates' dtype, token by token: the order does not depend on the device.
    out_TKD = out_PD[back_P].view(tokens, k, -1)
    return (out_TKD * gates_TK[..., None]).sum(1).to(out_PD.dtype)


def grouped_linear(
    x_PD: Tensor, weight_EFD: Tensor, bias_EF: Tensor | None, expert_P: Tensor, ends_E: Tensor
) -> Tensor:
    """Rows up to `ends_E[0]` by the first weight, up to `ends_E[1]` by the second, and so on."""
    kind = x_PD.device.type
    if torch.is_autocast_enabled(kind):
        # As for `F.linear`; torch's grouped product is not on autocast's list.
        dtype = torch.get_autocast_dtype(kind)
        x_PD, weight_EFD = x_PD.to(dtype), weight_EFD.to(dtype)
    out_PF = grouped_product(x_PD, weight_EFD.transpose(1, 2), ends_E)
    return out_PF if bias_EF is None else out_PF + bias_EF[expert_P].to(out_PF.dtype)


def grouped_product(x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """torch's grouped matrix product, or a product for each expert where torch has none for these."""
    if GROUPED_PRODUCT is not None and can_group(x_PD, weight_EDF):
        return GROUPED_PRODUCT(x_PD, weight_EDF, offs=ends_E)
    as_one_operation = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if as_one_operation is not None:  # a loop that a compiler does not look into
        return as_one_operation(x_PD, weight_EDF, ends_E)
    starts = [0, *ends_E.tolist()]
    return torch.cat([x_PD[first:last] @ w for first, last, w in zip(starts, starts[1:], weight_EDF, strict=False)])


def can_group(x_PD: Tensor, weight_EDF: Tensor) -> bool:
    """Whether torch's grouped matrix product takes these here."""
    if x_PD.dtype != weight_EDF.dtype or x_PD.dtype not in GROUPED_DTYPES:
        return False
    # Rows begin at multiples of 16 bytes, in the backward pass too.
    if any(size * x_PD.element_size() % 16 for size in weight_EDF.shape[1:]):
        return False
    if torch.compiler.is_compiling():
        return x_PD.dtype == torch.bfloat16
    if x_PD.is_cuda:
        return torch.cuda.get_device_capability(x_PD.device) >= (8, 0) if hasattr(F, "grouped_mm") else False
    if x_PD.device.type == "cpu":
        # The kernel of torch 2.10 wants weights to begin so as well, which those mapped from a file do not.
        return hasattr(F, "grouped_mm") and not (x_PD.data_ptr() % 16 or weight_EDF.data_ptr() % 16)
    return True
