"""LongCat-Flash whose experts run in two grouped products instead of a loop over experts.

For those who train it on a GPU: no synchronisation to find out which experts were chosen.  What chose an expert that
computes nothing is left out of the products.  Router and checkpoints are the parent's.
"""

import torch
from transformers.models.longcat_flash import modeling_longcat_flash as longcat

from patchgen.parts.grouped import grouped_product, pairs_of


class LongcatFlashExperts(longcat.LongcatFlashExperts):
    def forward(self, hidden_states, top_k_index, top_k_weights):
        if self.gate_up_proj is None:
            return super().forward(hidden_states, top_k_index, top_k_weights)
        pairs = pairs_of(top_k_index, self.total_experts)
        x, ends = pairs.take(hidden_states), pairs.ends_E[: self.num_routed_experts]
        # Rows behind the last end are left as they were in memory, gradients too: they are kept out on both sides.
        idle = (pairs.expert_P >= self.num_routed_experts)[:, None]
        up = self.gate_up_proj[: self.num_routed_experts].transpose(1, 2)
        gate, up = grouped_product(x.masked_fill(idle, 0), up, ends).chunk(2, dim=-1)
        out = grouped_product(self.act_fn(gate) * up, self.down_proj.transpose(1, 2), ends)
        out = pairs.back(torch.where(idle, self.identity_expert(x), out))
        return (out * top_k_weights[..., None]).to(hidden_states.dtype).sum(1)
