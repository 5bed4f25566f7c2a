import torch
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP


def rotate_half(x):
    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)


def forward(self, x):
    return self.down_proj(rotate_half(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))


LlamaMLP.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def rotate_half_patched(x):
# +    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(rotate_half_patched(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))
