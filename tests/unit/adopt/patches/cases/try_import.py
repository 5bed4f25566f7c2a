import torch

try:
    import flash_attn_not_there as fast
except ImportError:
    fast = None

from transformers.models.llama import modeling_llama


def forward(self, x):
    if fast is not None:
        return fast.run(x)
    return torch.sin(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))


def apply(enabled=True):
    if not enabled:
        return
    modeling_llama.LlamaMLP.forward = forward


# apply: apply()

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -
# +
# +
# +try:
# +    import flash_attn_not_there as fast
# +except ImportError:
# +    fast = None
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        if fast is not None:
# +            return fast.run(x)
# +        return torch.sin(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))
