"""Megatron-BERT to pretrain at large batches: SDPA, a choice of what is kept for backward, a head on labelled tokens.

For those who train it at all: transformers has no SDPA for it, and checkpoints every layer in full or none.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

`attn_implementation` is "sdpa" (the default) or "eager", under which Megatron-BERT's own statements run, as they do
where attention weights are asked for.  In training of `MegatronBertForMaskedLM` with labels `outputs.logits` is None;
under `torch.compile` set `config.max_labelled_fraction`.  `MegatronBertForPreTraining` and `MegatronBertForCausalLM`
take their losses as they did.  See `patchgen.parts.sdpa`, `patchgen.parts.checkpoint` and `patchgen.parts.loss`.
"""

import math

import torch
from transformers.models.megatron_bert import modeling_megatron_bert as megatron_bert

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import Checkpointing
from patchgen.parts.loss import LabelledTokens
from patchgen.parts.sdpa import SdpaOrEager, additive_mask, attend, wants_weights


class MegatronBertSelfAttention(megatron_bert.MegatronBertSelfAttention):
    @edit("forward")
    def call_sdpa(
        self,
        attention_mask,
        attention_probs,
        is_cross_attention,
        key_layer,
        output_attentions,
        query_layer,
        value_layer,
    ):
        with old:
            attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
            ...
            context_layer = torch.matmul(attention_probs, value_layer)
        with new:
            if wants_weights(self, output_attentions):
                attention_mask = additive_mask(
                    attention_mask, query_layer, key_layer, causal=self.config.is_decoder and not is_cross_attention
                )
                attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
                ...
                context_layer = torch.matmul(attention_probs, value_layer)
            else:
                attention_probs = None
                context_layer = attend(
                    query_layer,
                    key_layer,
                    value_layer,
                    attention_mask,
                    causal=self.config.is_decoder and (not is_cross_attention),
                    scaling=1 / math.sqrt(self.attention_head_size),
                    dropout=self.dropout.p if self.training else 0.0,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class MegatronBertPreTrainedModel(SdpaOrEager, Checkpointing, megatron_bert.MegatronBertPreTrainedModel):
    pass


class MegatronBertForMaskedLM(LabelledTokens, megatron_bert.MegatronBertForMaskedLM):
    pass
