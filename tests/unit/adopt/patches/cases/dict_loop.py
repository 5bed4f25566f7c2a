from transformers.models.llama import modeling_llama as m


def forward(self, x):
    return self.down_proj(self.up_proj(x))


def norm(self, hidden_states):
    return hidden_states * self.weight


PATCHES = {m.LlamaMLP: forward, m.LlamaRMSNorm: norm}
for owner, function in PATCHES.items():
    owner.forward = function

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
# +        return hidden_states * self.weight
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.up_proj(x))
