"""Mixtral's router and experts as a user writes them again; all equal the parent's."""

import torch
from torch import nn
from transformers.models.mixtral import modeling_mixtral as mixtral


class MixtralTopKRouter(mixtral.MixtralTopKRouter):
    def forward(self, hidden_states):
        logits = nn.functional.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
        probabilities = logits.float().softmax(-1)
        weights, experts = probabilities.topk(self.top_k, -1)
        return logits, weights / weights.sum(-1, keepdim=True), experts


class MixtralSparseMoeBlock(mixtral.MixtralSparseMoeBlock):
    def forward(self, hidden_states):
        shape = hidden_states.shape
        if self.training and self.jitter_noise > 0:
            low, high = 1.0 - self.jitter_noise, 1.0 + self.jitter_noise
            hidden_states = hidden_states * torch.empty_like(hidden_states).uniform_(low, high)
        states = hidden_states.reshape(-1, shape[-1])
        _, weights, experts = self.gate(states)
        return self.experts(states, experts, weights).view(shape)


class MixtralForCausalLM(mixtral.MixtralForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.router_aux_loss_coef = config.router_aux_loss_coef
        self.num_experts_per_tok = config.num_experts_per_tok
