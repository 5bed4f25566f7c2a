"""Attention, FFN and loss as a user writes them again; all equal the parent's."""

import torch
from torch import nn
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.llama import modeling_llama as llama
from transformers.utils import can_return_tuple


class LlamaRMSNorm(llama.LlamaRMSNorm):
    def forward(self, x):
        wide = x.to(torch.float32)
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * scaled.to(x.dtype)


class LlamaMLP(llama.LlamaMLP):
    def forward(self, x):
        parts = [
            self.down_proj(self.act_fn(self.gate_proj(part)) * self.up_proj(part))
            for part in x.split(8, 1)
        ]
        return torch.cat(parts, 1)


class LlamaAttention(llama.LlamaAttention):
    def forward(
        self,
        hidden_states,
        position_embeddings=None,
        attention_mask=None,
        past_key_values=None,
        **kwargs,
    ):
        batch, length, _ = hidden_states.shape
        shape = (batch, length, -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        cos, sin = position_embeddings
        query, key = llama.apply_rotary_pos_emb(query, key, cos, sin)
        before = 0
        if past_key_values is not None:
            before = past_key_values.get_seq_length(self.layer_idx)
            key, value = past_key_values.update(key, value, self.layer_idx)
        key = key.repeat_interleave(self.num_key_value_groups, 1)
        value = value.repeat_interleave(self.num_key_value_groups, 1)
        scores = query @ key.transpose(2, 3) * self.scaling
        if attention_mask is None:
            seen = torch.ones(length, key.shape[2], dtype=torch.bool, device=key.device)
            attention_mask = seen.tril(before)
        if attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
        weights = nn.functional.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
        dropped = nn.functional.dropout(weights, self.attention_dropout, self.training)
        out = (dropped @ value).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(out), dropped


class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):
    _supports_flash_attn = False
    _supports_flex_attn = False


class LlamaForCausalLM(llama.LlamaForCausalLM):
    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        **kwargs,
    ):
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
