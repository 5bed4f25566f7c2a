import torch
from torch import nn
from transformers.models.llama import modeling_llama


class MyNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        return self.weight * x / (x.abs().mean(-1, keepdim=True) + self.eps)


modeling_llama.LlamaRMSNorm = MyNorm

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -
# -
# -logger = logging.get_logger(__name__)
# -
# -
# -@use_kernel_forward_from_hub("RMSNorm")
# -class LlamaRMSNorm(nn.Module):
# -    def __init__(self, hidden_size, eps: float = 1e-6) -> None:
# -        """
# -        LlamaRMSNorm is equivalent to T5LayerNorm
# -        """
# +
# +
# +class MyNorm(nn.Module):
# +    def __init__(self, hidden_size, eps=1e-6):
# -        self.variance_epsilon = eps
# -
# -    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
# -        input_dtype = hidden_states.dtype
# -        hidden_states = hidden_states.to(torch.float32)
# -        variance = hidden_states.pow(2).mean(-1, keepdim=True)
# -        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
# -        return self.weight * hidden_states.to(input_dtype)
# -
# -    def extra_repr(self):
# -        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
# +        self.eps = eps
# +
# +    def forward(self, x):
# +        return self.weight * x / (x.abs().mean(-1, keepdim=True) + self.eps)
# +
# +
# +logger = logging.get_logger(__name__)
# +
# +
# -        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# -        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.input_layernorm = MyNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.post_attention_layernorm = MyNorm(config.hidden_size, eps=config.rms_norm_eps)
# -        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.norm = MyNorm(config.hidden_size, eps=config.rms_norm_eps)
