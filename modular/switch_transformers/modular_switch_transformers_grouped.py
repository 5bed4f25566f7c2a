"""Switch Transformers whose experts run by transformers' interface, in grouped GEMMs instead of a loop over them.

For those who train or encode with many experts on a GPU: two products for all experts, and no synchronisation to find
out which of them were chosen.  `experts_implementation` takes every name that transformers has: "grouped_mm" is the
default, "eager" the loop.  Router, jitter and capacity are the parent's: a token beyond an expert's capacity gets
nothing from it.  The weights are stacked when a checkpoint is loaded, and saved as the parent has them.  An expert
that no token chose gets a gradient of zeros, where the parent's loop gives it none.

Written by hand: no two loops over experts are alike, and these are modules of their own.
"""

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.core_model_loading import MergeModulelist, WeightConverter
from transformers.integrations import use_experts_implementation
from transformers.models.switch_transformers import modeling_switch_transformers as switch

from patchgen.edits import edit, new, old
from patchgen.parts.stacked import ConvertedCheckpoints


@use_experts_implementation(has_gate=False)
class SwitchTransformersExperts(switch.SwitchTransformersExperts):
    @edit("__init__")
    def stack_the_weights(self, config, idx):
        with old:
            for idx in range(config.num_experts):
                self[f"expert_{idx}"] = switch.SwitchTransformersDenseActDense(config)
        with new:
            self.up_proj = nn.Parameter(torch.empty(config.num_experts, config.d_ff, config.d_model))
            self.down_proj = nn.Parameter(torch.empty(config.num_experts, config.d_model, config.d_ff))
            self.act_fn = nn.Sequential(ACT2FN[config.dense_act_fn], nn.Dropout(config.dropout_rate))

    @edit("forward")
    def take_numbers(self, selected_experts, expert_mask):
        with old:
            expert_mask = selected_experts.permute(2, 1, 0)
        with new:
            expert_mask = nn.functional.one_hot(selected_experts, self.num_experts).permute(2, 1, 0)

    @edit("forward")
    def run_one_expert(self, expert_idx, current_state, current_hidden_states, routing_weights, top_x, idx):
        with old:
            current_hidden_states = self[f"expert_{expert_idx[0]}"](current_state) * routing_weights[top_x, idx, None]
        with new:
            current_state = self.act_fn(nn.functional.linear(current_state, self.up_proj[expert_idx[0]]))
            current_state = nn.functional.linear(current_state, self.down_proj[expert_idx[0]])
            current_hidden_states = current_state * routing_weights[top_x, idx, None]


class SwitchTransformersSparseMLP(switch.SwitchTransformersSparseMLP):
    @edit("forward")
    def number_the_experts(self, selected_experts, routing_weights):
        with old:
            selected_experts = selected_experts.view(-1, 1, self.router.num_experts)
            routing_weights = routing_weights.view(-1, 1)
        with new:
            # A row of zeros is a token beyond the capacity of its expert.
            routing_weights = (routing_weights * selected_experts.sum(-1, keepdim=True)).view(-1, 1)
            selected_experts = selected_experts.argmax(-1).view(-1, 1)


class SwitchTransformersPreTrainedModel(ConvertedCheckpoints, switch.SwitchTransformersPreTrainedModel):
    _weight_conversions = [
        WeightConverter("experts.expert_*.wi.weight", "experts.up_proj", [MergeModulelist()]),
        WeightConverter("experts.expert_*.wo.weight", "experts.down_proj", [MergeModulelist()]),
    ]

    @edit("_init_weights")
    def initialise_the_stacks(self, module, factor, d_model, idx):
        with old:
            for idx in range(self.config.num_experts):
                ...
        with new:
            init.normal_(module.experts.up_proj, mean=0.0, std=factor * (d_model**-0.5))
            init.normal_(module.experts.down_proj, mean=0.0, std=factor * (d_model**-0.5))
