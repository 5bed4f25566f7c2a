"""XGLM to train on long texts: SDPA, a choice of what is kept for backward, no logits.

For those who fine-tune it: transformers has no SDPA for it, and its 256,008 words make logits the largest tensors of a
step, beside which checkpointing alone gains little.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

`attn_implementation` is "sdpa" (the default) or "eager", under which XGLM's own statements run, as they do where
attention weights are asked for.  In training with labels `outputs.logits` is None; `config.loss_chunk_size` sets the
tokens in a chunk, 0 brings the logits back.  See `patchgen.parts.sdpa`, `patchgen.parts.checkpoint` and
`patchgen.parts.loss`.
"""

import torch
from transformers.models.xglm import modeling_xglm as xglm

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import Checkpointing
from patchgen.parts.loss import ChunkedLoss
from patchgen.parts.sdpa import SdpaOrEager, additive_mask, attend, knowing, wants_weights


class XGLMAttention(xglm.XGLMAttention):
    @edit("forward")
    def call_sdpa(
        self, attention_mask, attn_probs, is_cross_attention, key_states, kwargs, query_states, value_states
    ):
        with old:
            attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))
            ...
            attn_output = torch.bmm(attn_probs, value_states)
        with new:
            if wants_weights(self, kwargs.get("output_attentions")):
                attention_mask = additive_mask(
                    attention_mask, query_states, key_states, causal=self.is_decoder and not is_cross_attention
                )
                attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))
                ...
                attn_output = torch.bmm(attn_probs, value_states)
            else:
                attn_weights_reshaped = None
                attn_output = attend(
                    query_states,
                    key_states,
                    value_states,
                    attention_mask,
                    causal=self.is_decoder and (not is_cross_attention),
                    scaling=1.0,
                    dropout=self.dropout if self.training else 0.0,
                    heads=self.num_heads,
                )


class XGLMDecoderLayer(xglm.XGLMDecoderLayer):
    @edit("__init__", count=2)
    def know_the_config(self, config):
        with old:
            XGLMAttention(...)
        with new:
            knowing(config, XGLMAttention(...))


class XGLMPreTrainedModel(SdpaOrEager, Checkpointing, xglm.XGLMPreTrainedModel):
    pass


class XGLMForCausalLM(ChunkedLoss, xglm.XGLMForCausalLM):
    pass
