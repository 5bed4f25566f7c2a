"""T5's distances and FFN as a user writes them again; all equal the parent's."""

import math

import torch
from torch import nn
from transformers.models.t5 import modeling_t5 as t5


class T5LayerNorm(t5.T5LayerNorm):
    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            states = states.to(self.weight.dtype)
        return self.weight * states


class T5DenseActDense(t5.T5DenseActDense):
    def forward(self, hidden_states):
        inner = self.act(nn.functional.linear(hidden_states, self.wi.weight))
        inner = nn.functional.dropout(inner, self.dropout.p, self.training)
        return self.wo(inner.to(self.wo.weight.dtype))


class T5Attention(t5.T5Attention):
    @staticmethod
    def _relative_position_bucket(
        relative_position, bidirectional=True, num_buckets=32, max_distance=128
    ):
        bucket = torch.zeros_like(relative_position)
        distance = -relative_position.clamp(max=0)
        if bidirectional:
            num_buckets = num_buckets // 2
            bucket = (relative_position > 0).long() * num_buckets
            distance = relative_position.abs()
        exact = num_buckets // 2
        far = (
            torch.log(distance.float() / exact)
            / math.log(max_distance / exact)
            * (num_buckets - exact)
        )
        far = (exact + far.to(torch.long)).clamp(max=num_buckets - 1)
        return bucket + torch.where(distance < exact, distance, far)

    def compute_bias(self, query_length, key_length, device=None, past_seen_tokens=0):
        device = self.relative_attention_bias.weight.device if device is None else device
        queries = torch.arange(query_length, device=device)[:, None] + past_seen_tokens
        keys = torch.arange(key_length, device=device)[None]
        buckets = self._relative_position_bucket(
            keys - queries,
            not self.is_decoder,
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
        )
        return self.relative_attention_bias(buckets).permute(2, 0, 1)[None]
