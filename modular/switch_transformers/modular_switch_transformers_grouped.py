"""Switch Transformers whose experts run in one grouped product instead of a loop over experts.

For those who train or encode with many experts on a GPU: two products for all experts, and no synchronisation to find
out which of them were chosen.  Router, jitter and capacity are the parent's: a token beyond an expert's capacity gets
nothing from it.  Checkpoints are the same.  What differs: see `patchgen.parts.stacked`.
"""

import torch
from transformers.models.switch_transformers import modeling_switch_transformers as switch

from patchgen.parts.grouped import grouped_linear, pairs_of
from patchgen.parts.stacked import stacked, too_few


class SwitchTransformersExperts(switch.SwitchTransformersExperts):
    def forward(self, hidden_states, selected_experts, routing_weights):
        if too_few(hidden_states, self):
            return super().forward(hidden_states, selected_experts, routing_weights)
        experts = list(self.values())
        # One-hot rows; a row of zeros is a token beyond the capacity.
        kept = selected_experts.amax(-1, keepdim=True) > 0
        pairs = pairs_of(selected_experts.argmax(-1), len(experts))
        inner = grouped_linear(pairs.take(hidden_states), stacked(experts, "wi.weight"), None, pairs)
        down = stacked(experts, "wo.weight")  # may be kept in float32
        inner = experts[0].dropout(experts[0].act(inner)).to(down.dtype)
        out = pairs.back(grouped_linear(inner, down, None, pairs)) * routing_weights[..., None]
        return torch.where(kept, out, 0).sum(1).to(hidden_states.dtype)
