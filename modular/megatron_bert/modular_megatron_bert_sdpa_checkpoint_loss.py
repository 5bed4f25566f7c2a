"""megatron_bert with sdpa and loss, written by `patchgen new`.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flash_attention_2" and its successors, "flex_attention" or a function of your own.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

What stays as it was:

- transformers/models/megatron_bert/modeling_megatron_bert.py:773:30: MegatronBertForPreTraining: takes its loss in statements that the part does not know
- transformers/models/megatron_bert/modeling_megatron_bert.py:884:20: MegatronBertForCausalLM: `self.cls`, which makes its logits, is no linear layer
"""

import math
from collections.abc import Callable

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.megatron_bert import modeling_megatron_bert as megatron_bert

from patchgen.edits import edit, new, old
from patchgen.parts.loss import LabelledTokens


class MegatronBertSelfAttention(megatron_bert.MegatronBertSelfAttention):
    @edit("forward")
    def call_the_interface(
        self, attention_mask, context_layer, is_cross_attention, key_layer, query_layer, value_layer
    ):
        with old:
            attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
            ...
            context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        with new:
            if self.config._attn_implementation == "eager":
                attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
                ...
                context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
            else:
                attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                    self.config._attn_implementation, sdpa_attention_forward
                )
                context_layer, attention_probs = attention_interface(
                    self,
                    query_layer,
                    key_layer,
                    value_layer,
                    attention_mask,
                    dropout=self.dropout.p if self.training else 0.0,
                    scaling=1 / math.sqrt(self.attention_head_size),
                    is_causal=self.is_decoder and not is_cross_attention,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class MegatronBertPreTrainedModel(megatron_bert.MegatronBertPreTrainedModel):
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class MegatronBertForMaskedLM(LabelledTokens, megatron_bert.MegatronBertForMaskedLM):
    pass
