"""Llama 4 whose experts run on the tokens that chose them, by transformers' interface.

transformers gives every token to every expert and multiplies what was not chosen by zero: with one expert of 16 chosen
(Scout) 16 times the products, with one of 128 (Maverick) 128 times.  Here each token meets its own experts alone, in
grouped GEMMs.  `experts_implementation` takes every name that transformers has: "grouped_mm" is the default, with
"eager" every token meets every expert as in the parent.  Numbers and checkpoints are the same.

Written by hand: here experts get all tokens, and there is no loop to replace.
"""

import torch
from transformers.integrations import use_experts_implementation
from transformers.models.llama4 import modeling_llama4 as llama4

from patchgen.edits import edit, new, old


@use_experts_implementation(is_transposed=True)
class Llama4TextExperts(llama4.Llama4TextExperts):
    def forward(self, hidden_states, top_k_index, top_k_weights):
        gate, up = (hidden_states @ self.gate_up_proj).chunk(2, dim=-1)
        states = (up * self.act_fn(gate)) @ self.down_proj
        return states[top_k_index[:, 0], torch.arange(len(hidden_states), device=states.device)] * top_k_weights


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
            # Scores go onto the tokens, before the experts: each token is a row for each of its experts.
            top_k_index = router_logits.topk(self.top_k, dim=1).indices
            routed_in = hidden_states[:, None] * router_scores.gather(1, top_k_index)[..., None]
            routed_in, top_k_index = routed_in.flatten(0, 1), top_k_index.view(-1, 1)
            routed_out = self.experts(routed_in, top_k_index, torch.ones_like(routed_in[:, :1]))
            ...
            out.add_(routed_out.view(-1, self.top_k, routed_out.shape[-1]).sum(dim=1))
