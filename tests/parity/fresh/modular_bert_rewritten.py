"""Embeddings, attention and the decoder of masked words as a user writes them again; all equal the parent's."""

import torch
from torch import nn
from transformers.models.bert import modeling_bert as bert


class BertEmbeddings(bert.BertEmbeddings):
    def forward(
        self,
        input_ids=None,
        token_type_ids=None,
        position_ids=None,
        inputs_embeds=None,
        past_key_values_length=0,
    ):
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
        length = inputs_embeds.shape[1]
        if position_ids is None:
            position_ids = (
                torch.arange(length, device=inputs_embeds.device)[None] + past_key_values_length
            )
        if token_type_ids is None:
            token_type_ids = torch.zeros(
                inputs_embeds.shape[:2], dtype=torch.long, device=inputs_embeds.device
            )
        states = (
            inputs_embeds
            + self.token_type_embeddings(token_type_ids)
            + self.position_embeddings(position_ids)
        )
        return self.dropout(self.LayerNorm(states))


class BertSelfAttention(bert.BertSelfAttention):
    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        batch, length, _ = hidden_states.shape
        shape = (batch, length, self.num_attention_heads, self.attention_head_size)
        query, key, value = (
            layer(hidden_states).view(shape).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if past_key_values is not None:
            cache = getattr(past_key_values, "self_attention_cache", past_key_values)
            key, value = cache.update(key, value, self.layer_idx)
        scores = query @ key.transpose(2, 3) * self.scaling
        if attention_mask is None and self.is_causal:
            seen = torch.ones(length, key.shape[2], dtype=torch.bool, device=key.device)
            attention_mask = seen.tril(key.shape[2] - length)
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        elif attention_mask is not None:
            scores = scores + attention_mask
        weights = self.dropout(scores.softmax(-1))
        return (weights @ value).transpose(1, 2).reshape(batch, length, -1), weights


class BertSelfOutput(bert.BertSelfOutput):
    def forward(self, hidden_states, input_tensor):
        return self.LayerNorm(input_tensor + self.dropout(self.dense(hidden_states)))


class BertOutput(bert.BertOutput):
    def forward(self, hidden_states, input_tensor):
        return self.LayerNorm(input_tensor + self.dropout(self.dense(hidden_states)))


class BertPooler(bert.BertPooler):
    def forward(self, hidden_states):
        return torch.tanh(
            nn.functional.linear(hidden_states[:, 0], self.dense.weight, self.dense.bias)
        )


class BertLMPredictionHead(bert.BertLMPredictionHead):
    def forward(self, hidden_states):
        return self.decoder(self.transform(hidden_states))


class BertPreTrainedModel(bert.BertPreTrainedModel):
    _supports_flash_attn = False
    _supports_flex_attn = False


class BertForMaskedLM(bert.BertForMaskedLM):
    _tied_weights_keys = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
