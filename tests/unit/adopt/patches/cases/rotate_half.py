import torch
from transformers.models.llama import modeling_llama


def rotate_half(x):
    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)


modeling_llama.rotate_half = rotate_half

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -    """Rotates half the hidden dims of the input."""
# -    x1 = x[..., : x.shape[-1] // 2]
# -    x2 = x[..., x.shape[-1] // 2 :]
# -    return torch.cat((-x2, x1), dim=-1)
# +    return torch.cat((x[..., 1:], x[..., :1]), dim=-1)
