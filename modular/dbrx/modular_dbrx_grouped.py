"""DBRX whose experts run in grouped products instead of a loop over experts.

For those who train it on a GPU: three products for all experts, and no synchronisation to find out which of them were
chosen.  Router, jitter and checkpoints are the parent's.
"""

from transformers.models.dbrx import modeling_dbrx as dbrx

from patchgen.parts.grouped import grouped_linear, grouped_product, pairs_of


class DbrxExperts(dbrx.DbrxExperts):
    def forward(self, hidden_states, top_k_index, top_k_weights):
        rows = hidden_states.shape[0]
        pairs = pairs_of(top_k_index, self.num_experts)
        x = pairs.take(hidden_states.reshape(-1, self.hidden_size))
        shape = (self.num_experts, self.ffn_hidden_size, self.hidden_size)
        gate, up = (grouped_linear(x, weight.view(shape), None, pairs) for weight in (self.mlp.w1, self.mlp.v1))
        out = grouped_product(self.mlp.activation_fn(gate) * up, self.mlp.w2.view(shape), pairs.ends_E)
        out = (pairs.back(out) * top_k_weights[..., None]).to(hidden_states.dtype).sum(1)
        return out.view(rows, -1, self.hidden_size)
