"""LongCat-Flash whose experts run in two grouped GEMMs instead of a loop over experts.

For those who train it on a GPU: no synchronisation to find out which experts were chosen.  What chose an expert that
computes nothing is left out of the products.  Router and checkpoints are the parent's.  Its weights of gate and up
have rows for the experts that compute nothing, those down have none: transformers' interface of experts takes the same
number of both, and its grouped GEMM is called alone.

Written by hand: no two loops over experts are alike, and some of these experts compute nothing.
"""

import torch
from transformers.integrations.moe import _grouped_linear
from transformers.models.longcat_flash import modeling_longcat_flash as longcat


class LongcatFlashExperts(longcat.LongcatFlashExperts):
    def forward(self, hidden_states, top_k_index, top_k_weights):
        if self.gate_up_proj is None or hidden_states.dtype == torch.float64:  # torch has no grouped product of it
            return super().forward(hidden_states, top_k_index, top_k_weights)
        kind = hidden_states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_states.dtype
        experts, order = top_k_index.flatten().sort()
        routed = torch.arange(self.num_routed_experts, device=experts.device)
        ends = torch.searchsorted(experts, routed, right=True).int()
        rows = hidden_states[order // top_k_index.shape[1]]
        # Rows behind the last end are left as they were in memory, gradients too: they are kept out on both sides.
        idle = (experts >= self.num_routed_experts)[:, None]
        up = self.gate_up_proj[: self.num_routed_experts].to(dtype)
        gate, up = _grouped_linear(rows.masked_fill(idle, 0).to(dtype), up, ends).chunk(2, dim=-1)
        out = _grouped_linear(self.act_fn(gate) * up, self.down_proj.to(dtype), ends)
        out = torch.where(idle, self.identity_expert(rows), out)[order.argsort()].view(*top_k_index.shape, -1)
        return (out * top_k_weights[..., None]).to(hidden_states.dtype).sum(1)
