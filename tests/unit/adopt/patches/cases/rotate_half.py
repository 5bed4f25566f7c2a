import torch
from transformers.models.llama import modeling_llama


def rotate_half(x):
    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)


modeling_llama.rotate_half = rotate_half

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def rotate_half_patched(x):
# +    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)
# -def rotate_half(x):
# -    """Rotates half the hidden dims of the input."""
# -    x1 = x[..., : x.shape[-1] // 2]
# -    x2 = x[..., x.shape[-1] // 2 :]
# -    return torch.cat((-x2, x1), dim=-1)
# -    q_embed = (q * cos) + (rotate_half(q) * sin)
# -    k_embed = (k * cos) + (rotate_half(k) * sin)
# +    q_embed = (q * cos) + (rotate_half_patched(q) * sin)
# +    k_embed = (k * cos) + (rotate_half_patched(k) * sin)
