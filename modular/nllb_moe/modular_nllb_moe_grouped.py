"""NLLB-MoE whose experts run in one grouped product instead of a loop over experts.

For those who train or encode with it on a GPU: a token has two rows, where transformers runs one for each expert that
there is, most of them with a weight of zero; and no synchronisation to find out which experts were chosen.  Router,
capacity and checkpoints are the parent's.  What differs: see `patchgen.parts.stacked`.

Which experts run is the parent's too: transformers 5.23 takes the router's mask of zeros and ones for numbers of
experts, so that the first choice of every token is expert 1, and the second expert 0.
"""

from transformers.models.nllb_moe import modeling_nllb_moe as nllb_moe

from patchgen.parts.grouped import pairs_of
from patchgen.parts.stacked import stacked_linear, too_few


class NllbMoeExperts(nllb_moe.NllbMoeExperts):
    def forward(self, hidden_states, router_mask, router_probs):
        experts = [self[f"expert_{index}"] for index in range(self.num_experts)]
        if too_few(hidden_states, experts):
            return super().forward(hidden_states, router_mask, router_probs)
        # No more than two of a token's probabilities are not zero.
        gates, places = router_probs.topk(2, dim=-1)
        pairs = pairs_of(router_mask.gather(-1, places), len(experts))
        inner = experts[0].act(stacked_linear(pairs.take(hidden_states), experts, "fc1", pairs))
        # The second may be kept in float32.
        inner = experts[0].dropout(inner).to(experts[0].fc2.weight.dtype)
        out = pairs.back(stacked_linear(inner, experts, "fc2", pairs)) * gates[..., None]
        if self.moe_token_dropout > 0:
            out = self.token_dropout(out) if self.training else out * (1 - self.moe_token_dropout)
        return out.to(hidden_states.dtype).sum(1)
