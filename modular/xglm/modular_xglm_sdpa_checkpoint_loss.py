"""XGLM to train on long texts: SDPA and no logits.

For those who fine-tune it: transformers has no SDPA for it, and its 256,008 words make logits the largest tensors of a
step, beside which checkpointing alone gains little.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flash_attention_2" and its successors, "flex_attention", or a function of your own.

With labels there are no `outputs.logits`; `config.loss_chunk_size` sets the tokens in a chunk, 0 brings the
logits back.  See `patchgen.parts.loss`.
"""

from collections.abc import Callable

import torch
from patchgen.edits import edit, new, old
from patchgen.parts.loss import ChunkedLoss
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.xglm import modeling_xglm as xglm


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
    attn_weights = torch.bmm(query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)) * scaling
    attn_weights = attn_weights.unflatten(0, query.shape[:2])
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask
        attn_weights = torch.max(
            attn_weights, torch.full((), torch.finfo(attn_weights.dtype).min, device=attn_weights.device)
        )

    # upcast to fp32 if the weights are in fp16. Please see https://github.com/huggingface/transformers/pull/17437
    dtype = torch.float32 if attn_weights.dtype == torch.float16 else None
    attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=dtype).to(attn_weights.dtype)
    attn_probs = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_probs, value).transpose(1, 2).contiguous()
    return attn_output, attn_weights


class XGLMAttention(xglm.XGLMAttention):
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float | None = 0.0,
        is_decoder: bool | None = False,
        bias: bool | None = True,
        layer_idx: bool | None = None,
        config: xglm.XGLMConfig | None = None,
    ):
        super().__init__(embed_dim, num_heads, dropout, is_decoder, bias, layer_idx)
        self.config = config

    @edit("forward")
    def call_the_interface(
        self,
        bsz,
        tgt_len,
        query_states,
        key_states,
        value_states,
        attention_mask,
        attn_output,
        attn_weights_reshaped,
        is_cross_attention,
        kwargs,
    ):
        with old:
            proj_shape = (bsz * self.num_heads, -1, self.head_dim)
            ...
            attn_output = attn_output.transpose(1, 2)
        with new:
            query_states = query_states.view(bsz, tgt_len, self.num_heads, self.head_dim).transpose(1, 2)
            attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
            attn_output, attn_weights_reshaped = attention_interface(
                self,
                query_states,
                key_states,
                value_states,
                attention_mask,
                dropout=self.dropout if self.training else 0.0,
                scaling=1.0,  # the queries are scaled
                is_causal=not is_cross_attention,
                **kwargs,
            )


class XGLMDecoderLayer(xglm.XGLMDecoderLayer):
    @edit("__init__", count=2)
    def know_the_config(self, config, layer_idx):
        with old:
            XGLMAttention(..., layer_idx=layer_idx)
        with new:
            XGLMAttention(..., layer_idx=layer_idx, config=config)


class XGLMPreTrainedModel(xglm.XGLMPreTrainedModel):
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class XGLMForCausalLM(ChunkedLoss, xglm.XGLMForCausalLM):
    pass
