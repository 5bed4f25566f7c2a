"""bloom with sdpa, written by `patchgen new`.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flex_attention" or a function of your own.
"""

from collections.abc import Callable

import torch
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.masking_utils import create_causal_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bloom import modeling_bloom as bloom

from patchgen.edits import before, edit, new, old


class BloomAttention(bloom.BloomAttention):
    is_causal = True

    @edit("forward")
    def call_the_interface(self, alibi, attention_mask, attention_probs_reshaped, key_layer, query_layer, value_layer):
        with old:
            attention_scores = alibi.baddbmm(
                batch1=query_layer, batch2=key_layer, beta=self.beta, alpha=self.inv_norm_factor
            )
            ...
            context_layer = torch.bmm(attention_probs_reshaped, value_layer)
        with new:
            if self.config._attn_implementation == "eager":
                attention_scores = alibi.baddbmm(
                    batch1=query_layer, batch2=key_layer, beta=self.beta, alpha=self.inv_norm_factor
                )
                ...
                context_layer = torch.bmm(attention_probs_reshaped, value_layer)
            else:
                attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                    self.config._attn_implementation, sdpa_attention_forward
                )
                context_layer, attention_probs = attention_interface(
                    self,
                    query_layer.unflatten(0, (-1, self.num_heads)),
                    key_layer.transpose(-1, -2).unflatten(0, (-1, self.num_heads)),
                    value_layer.unflatten(0, (-1, self.num_heads)),
                    attention_mask,
                    dropout=self.attention_dropout.p if self.training else 0.0,
                    scaling=self.inv_norm_factor,
                    position_bias=alibi,
                )
                context_layer = context_layer.transpose(1, 2).flatten(0, 1)

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class BloomPreTrainedModel(bloom.BloomPreTrainedModel):
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class BloomModel(bloom.BloomModel):
    @edit("forward")
    def make_the_mask(self):
        with old:
            create_causal_mask(...)
        with new:
            create_causal_mask(..., allow_is_causal_skip=False)

    @edit("forward")
    def add_the_bias_once(self, alibi, causal_mask, hidden_states):
        with old:
            for i, block in enumerate(self.h):
                ...
        with before:
            if self.config._attn_implementation != "eager":
                alibi = alibi.unflatten(0, (-1, self.num_heads)).expand(-1, -1, hidden_states.shape[1], -1)
            if self.config._attn_implementation == "sdpa":
                # One mask for all layers, which would each make one of their own.
                causal_mask = create_position_bias_mask(alibi, causal_mask, False, alibi, alibi)
                alibi = None
