"""DBRX whose experts run by transformers' interface, in grouped GEMMs instead of a loop over experts.

For those who train it on a GPU: two products for all experts, and no synchronisation to find out which of them were
chosen.  `experts_implementation` takes every name that transformers has: "grouped_mm" is the default, "eager" the
loop.  The weights are stacked when a checkpoint of DBRX is loaded, and saved as DBRX has them.

Written by hand: no two loops over experts are alike, and these weights are stacked in one tensor for all experts.
"""

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.core_model_loading import Concatenate, ConversionOps, Transpose, WeightConverter
from transformers.integrations import use_experts_implementation
from transformers.models.dbrx import modeling_dbrx as dbrx

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.stacked import ConvertedCheckpoints


class ByExpert(ConversionOps):
    """(experts * rows, columns) to (experts, rows, columns), or back."""

    def __init__(self, back=False):
        self.back = back

    def convert(self, input_dict, config, **kwargs):
        given = {name: value[0] if isinstance(value, list) else value for name, value in input_dict.items()}
        if self.back:
            return {name: weight.flatten(0, 1) for name, weight in given.items()}
        return {name: weight.unflatten(0, (config.ffn_config.moe_num_experts, -1)) for name, weight in given.items()}

    @property
    def reverse_op(self):
        return ByExpert(not self.back)


@use_experts_implementation
class DbrxExperts(dbrx.DbrxExperts):
    @edit("__init__")
    def stack_the_weights(self, config):
        with old:
            self.mlp = dbrx.DbrxExpertGLU(config)
        with new:
            config = config.ffn_config  # `_experts_implementation` is the model's
            experts, inner, features = config.moe_num_experts, config.ffn_hidden_size, config.hidden_size
            self.gate_up_proj = nn.Parameter(torch.empty(experts, 2 * inner, features))
            self.down_proj = nn.Parameter(torch.empty(experts, features, inner))
            self.act_fn = ACT2FN[config.ffn_act_fn.get("name", "silu")]

    @edit("forward")
    def leave_the_shape(self, split_expert_shape):
        with old:
            split_expert_shape = (-1, self.ffn_hidden_size, self.hidden_size)
        with new:
            pass

    @edit("forward")
    def run_one_expert(self, split_expert_shape, expert_idx, token_idx, hidden_states, states, v1, w1, w2):
        with old:
            v1 = self.mlp.v1.view(split_expert_shape)[expert_idx]
            w1 = self.mlp.w1.view(split_expert_shape)[expert_idx]
            w2 = self.mlp.w2.view(split_expert_shape)[expert_idx]
            states = self.mlp(hidden_states[token_idx], w1, v1, w2)
        with new:
            states = self._apply_gate(nn.functional.linear(hidden_states[token_idx], self.gate_up_proj[expert_idx]))
            states = nn.functional.linear(states, self.down_proj[expert_idx])


class DbrxFFN(dbrx.DbrxFFN):
    @edit("__init__")
    def tell_experts_the_implementation(self, config, experts: Hole):
        with old:
            self.experts = experts(config.ffn_config)
        with new:
            self.experts = experts(config)

    @edit("forward")
    def give_rows_of_tokens(self, hidden_states, top_k_index, top_k_weights):
        with old:
            self.experts(hidden_states, top_k_index, top_k_weights)
        with new:
            self.experts(hidden_states.flatten(0, 1), top_k_index, top_k_weights).view_as(hidden_states)


class DbrxPreTrainedModel(ConvertedCheckpoints, dbrx.DbrxPreTrainedModel):
    _weight_conversions = [
        WeightConverter(["experts.mlp.w1", "experts.mlp.v1"], "experts.gate_up_proj", [ByExpert(), Concatenate(1)]),
        WeightConverter("experts.mlp.w2", "experts.down_proj", [ByExpert(), Transpose(1, 2)]),
    ]

    @edit("_init_weights")
    def initialise_the_stacks(self, module, std):
        with old:
            if isinstance(module, dbrx.DbrxExpertGLU):
                ...
        with new:
            if isinstance(module, DbrxExperts):
                init.normal_(module.gate_up_proj, mean=0.0, std=std)
                init.normal_(module.down_proj, mean=0.0, std=std)
