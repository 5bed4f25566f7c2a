"""xglm with sdpa and loss, written by `patchgen new`.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flash_attention_2" and its successors, "flex_attention" or a function of your own.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.
"""

from collections.abc import Callable

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.xglm import modeling_xglm as xglm

from patchgen.edits import edit, new, old
from patchgen.parts.loss import ChunkedLoss
from patchgen.parts.sdpa import TellsConfig


class XGLMAttention(xglm.XGLMAttention):
    config = None

    @edit("forward")
    def call_the_interface(
        self, attention_mask, attn_output, is_cross_attention, key_states, query_states, value_states
    ):
        with old:
            attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))
            ...
            attn_output = attn_output.transpose(1, 2)
        with new:
            if self.config._attn_implementation == "eager":
                attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))
                ...
                attn_output = attn_output.transpose(1, 2)
            else:
                attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                    self.config._attn_implementation, sdpa_attention_forward
                )
                attn_output, attn_weights_reshaped = attention_interface(
                    self,
                    query_states.unflatten(0, (-1, self.num_heads)),
                    key_states.unflatten(0, (-1, self.num_heads)),
                    value_states.unflatten(0, (-1, self.num_heads)),
                    attention_mask,
                    dropout=self.dropout if self.training else 0.0,
                    scaling=1.0,
                    is_causal=self.is_decoder and not is_cross_attention,
                )


class XGLMPreTrainedModel(TellsConfig, xglm.XGLMPreTrainedModel):
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class XGLMForCausalLM(ChunkedLoss, xglm.XGLMForCausalLM):
    pass
