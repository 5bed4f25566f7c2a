"""NLLB-MoE whose experts run by transformers' interface, in grouped GEMMs instead of a loop over experts.

For those who train or encode with it on a GPU: a token has two rows, where transformers runs one for each expert that
there is, most of them with a weight of zero; and no synchronisation to find out which experts were chosen.
`experts_implementation` takes every name that transformers has: "grouped_mm" is the default, "eager" the loop.  The
weights are stacked when a checkpoint of NLLB-MoE is loaded, and saved as it has them.  An expert that no token chose
gets a gradient of zeros, where the parent's loop gives it none.

Which experts run is the parent's: transformers 5.23 takes the router's mask of zeros and ones for numbers of experts,
so that the first choice of every token is expert 1, and the second expert 0.
"""

import torch
from patchgen.edits import edit, new, old
from patchgen.parts.stacked import ConvertedCheckpoints
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.core_model_loading import MergeModulelist, WeightConverter
from transformers.integrations import use_experts_implementation
from transformers.models.nllb_moe import modeling_nllb_moe as nllb_moe


@use_experts_implementation(has_gate=False, has_bias=True, has_post_expert_norm=True)
class NllbMoeExperts(nllb_moe.NllbMoeExperts):
    @edit("__init__")
    def stack_the_weights(self, config, ffn_dim, idx):
        with old:
            for idx in range(self.num_experts):
                self[f"expert_{idx}"] = nllb_moe.NllbMoeDenseActDense(config, ffn_dim)
        with new:
            self.up_proj = nn.Parameter(torch.empty(self.num_experts, ffn_dim, config.d_model))
            self.up_proj_bias = nn.Parameter(torch.empty(self.num_experts, ffn_dim))
            self.down_proj = nn.Parameter(torch.empty(self.num_experts, config.d_model, ffn_dim))
            self.down_proj_bias = nn.Parameter(torch.empty(self.num_experts, config.d_model))
            self.act_fn = nn.Sequential(ACT2FN[config.activation_function], nn.Dropout(config.activation_dropout))

    def post_expert_norm(self, states):
        if self.training:
            return self.token_dropout(states)
        return states * (1 - self.moe_token_dropout)

    @edit("forward")
    def run_one_expert(self, expert_idx, current_state, current_hidden_states, router_probs, top_x, idx):
        with old:
            current_hidden_states = self[f"expert_{expert_idx[0]}"](current_state) * router_probs[top_x, idx, None]
            if self.moe_token_dropout > 0:
                ...
        with new:
            expert = expert_idx[0]
            current_state = nn.functional.linear(current_state, self.up_proj[expert], self.up_proj_bias[expert])
            current_state = self.act_fn(current_state)
            current_state = nn.functional.linear(current_state, self.down_proj[expert], self.down_proj_bias[expert])
            current_hidden_states = self.post_expert_norm(current_state) * router_probs[top_x, idx, None]


class NllbMoeSparseMLP(nllb_moe.NllbMoeSparseMLP):
    @edit("forward")
    def give_each_token_its_two(self, hidden_states, top_1_mask, router_probs):
        with old:
            hidden_states = self.experts(hidden_states, top_1_mask, router_probs)
        with new:
            router_probs, top_2 = router_probs.topk(2, dim=-1)  # no more of them are not zero
            hidden_states = self.experts(hidden_states, top_1_mask.gather(-1, top_2), router_probs)


class NllbMoePreTrainedModel(ConvertedCheckpoints, nllb_moe.NllbMoePreTrainedModel):
    _weight_conversions = [
        WeightConverter(f"experts.expert_*.{name}", f"experts.{stack}", [MergeModulelist()])
        for name, stack in (
            ("fc1.weight", "up_proj"),
            ("fc1.bias", "up_proj_bias"),
            ("fc2.weight", "down_proj"),
            ("fc2.bias", "down_proj_bias"),
        )
    ]

    @edit("_init_weights")
    def initialise_the_stacks(self, module):
        with old:
            super()._init_weights(module)
        with new:
            super()._init_weights(module)
            if isinstance(module, NllbMoeExperts):
                for name, parameter in module.named_parameters():
                    init.zeros_(parameter) if name.endswith("bias") else init.normal_(
                        parameter, std=self.config.init_std
                    )
