from transformers.models.llama import modeling_llama


def scale(self, hidden_states):
    return hidden_states * self.weight * 2.0


def extra_repr(self):
    return "scaled"


for name, value in [("forward", scale), ("extra_repr", extra_repr)]:
    setattr(modeling_llama.LlamaRMSNorm, name, value)

# says:
# @use_kernel_forward_from_hub of LlamaRMSNorm is left out: its forward is replaced
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -@use_kernel_forward_from_hub("RMSNorm")
# -    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
# -        input_dtype = hidden_states.dtype
# -        hidden_states = hidden_states.to(torch.float32)
# -        variance = hidden_states.pow(2).mean(-1, keepdim=True)
# -        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
# -        return self.weight * hidden_states.to(input_dtype)
# +    def forward(self, hidden_states):
# +        return hidden_states * self.weight * 2.0
# -        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
# +        return "scaled"
