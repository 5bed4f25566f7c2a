from transformers.models.llama import modeling_llama
from torch.nn import LayerNorm
from torch.nn.functional import relu

modeling_llama.LlamaRMSNorm = LayerNorm


def forward(self, x):
    return self.down_proj(relu(self.gate_proj(x)) * self.up_proj(x))


modeling_llama.LlamaMLP.forward = forward

# says:
# +from torch.nn import LayerNorm
# +from torch.nn.functional import relu
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -@use_kernel_forward_from_hub("RMSNorm")
# -class LlamaRMSNorm(nn.Module):
# -    def __init__(self, hidden_size, eps: float = 1e-6) -> None:
# -        """
# -        LlamaRMSNorm is equivalent to T5LayerNorm
# -        """
# -        super().__init__()
# -        self.weight = nn.Parameter(torch.ones(hidden_size))
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
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(relu(self.gate_proj(x)) * self.up_proj(x))
# -        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# -        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.input_layernorm = LayerNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.post_attention_layernorm = LayerNorm(config.hidden_size, eps=config.rms_norm_eps)
# -        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
# +        self.norm = LayerNorm(config.hidden_size, eps=config.rms_norm_eps)
