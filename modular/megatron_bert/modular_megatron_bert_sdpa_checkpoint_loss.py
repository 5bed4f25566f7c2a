"""Megatron-BERT to pretrain at large batches: SDPA, and a head on labelled tokens.

For those who train it at all: transformers has no SDPA for it.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flash_attention_2" and its successors, "flex_attention", or a function of your own.

In training of `MegatronBertForMaskedLM` with labels there are no `outputs.logits`; under `torch.compile` set
`config.max_labelled_fraction`.  `MegatronBertForPreTraining` and `MegatronBertForCausalLM` take their losses as they
did.  See `patchgen.parts.loss`.
"""

import math
from collections.abc import Callable

import torch
from patchgen.edits import edit, new, old
from patchgen.parts.loss import LabelledTokens
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.megatron_bert import modeling_megatron_bert as megatron_bert


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
):
    attn_weights = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[-1])
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

    attn_weights = nn.functional.softmax(attn_weights, dim=-1)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
    return attn_output, attn_weights


class MegatronBertSelfAttention(megatron_bert.MegatronBertSelfAttention):
    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config

    @edit("forward")
    def call_the_interface(
        self, query_layer, key_layer, value_layer, attention_mask, attention_probs, context_layer, is_cross_attention
    ):
        with old:
            attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
            ...
            context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        with new:
            attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
            context_layer, attention_probs = attention_interface(
                self,
                query_layer,
                key_layer,
                value_layer,
                attention_mask,
                dropout=self.dropout.p if self.training else 0.0,
                scaling=self.attention_head_size**-0.5,
                is_causal=self.is_decoder and not is_cross_attention,
            )


class MegatronBertPreTrainedModel(megatron_bert.MegatronBertPreTrainedModel):
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class MegatronBertForMaskedLM(LabelledTokens, megatron_bert.MegatronBertForMaskedLM):
    pass
