from types import MethodType

from transformers.models.llama.modeling_llama import LlamaRMSNorm


def plus(self, hidden_states):
    return self.weight * hidden_states + 0.1


def enable(model):
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = MethodType(plus, module)

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
# +        return self.weight * hidden_states + 0.1
