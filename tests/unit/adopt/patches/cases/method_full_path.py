import torch
import transformers


def forward(self, x):
    return self.down_proj(torch.tanh(self.gate_proj(x)) * self.up_proj(x))


transformers.models.llama.modeling_llama.LlamaMLP.forward = forward
transformers.models.llama.modeling_llama.LlamaModel._prepare_decoder_attention_mask = forward

# says:
# patch.py:10:1: LlamaModel._prepare_decoder_attention_mask has no effect: LlamaModel has no _prepare_decoder_attention_mask, and nothing calls it
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(torch.tanh(self.gate_proj(x)) * self.up_proj(x))
