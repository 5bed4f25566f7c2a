"""Llama 4 whose experts run on the tokens that chose them.

transformers gives every token to every expert and multiplies what was not chosen by zero: with one expert of 16 chosen
(Scout) 16 times the products, with one of 128 (Maverick) 128 times.  Here each token meets its own experts alone, in
one grouped product (`patchgen.parts.grouped`).  Numbers and checkpoints are the same.
"""

from transformers.models.llama4 import modeling_llama4 as llama4

from patchgen.edits import edit, new, old
from patchgen.parts.grouped import grouped_product, pairs_of


class Llama4TextExperts(llama4.Llama4TextExperts):
    def forward(self, hidden_states, router_scores, router_logits, top_k):
        choice = router_logits.topk(top_k, dim=1).indices
        pairs = pairs_of(choice, self.num_experts)
        # Scores go onto the tokens, before the experts.
        scores = router_scores.gather(1, choice).reshape(-1)[pairs.order_P]
        routed = pairs.take(hidden_states) * scores[:, None]
        gate, up = grouped_product(routed, self.gate_up_proj, pairs.ends_E).chunk(2, dim=-1)
        out = grouped_product(up * self.act_fn(gate), self.down_proj, pairs.ends_E)
        return pairs.back(out).sum(1)


class Llama4TextMoe(llama4.Llama4TextMoe):
    @edit("forward")
    def give_experts_their_own_tokens(self, hidden_states, router_scores, router_logits, routed_in, routed_out, out):
        with old:
            routed_in = hidden_states.repeat(router_scores.shape[1], 1)
            routed_in = routed_in * router_scores.transpose(0, 1).reshape(-1, 1)
            routed_out = self.experts(routed_in)
            ...
            out.add_(routed_out.reshape(router_scores.shape[1], -1, routed_out.shape[-1]).sum(dim=0))
        with new:
            routed_out = self.experts(hidden_states, router_scores, router_logits, self.top_k)
            ...
            out.add_(routed_out)
