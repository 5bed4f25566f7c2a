from transformers.models.llama.modeling_llama import LlamaMLP

try:
    from transformers.models.llama.modeling_llama import LlamaSdpaAttention
except ImportError:
    LlamaSdpaAttention = None


def forward(self, x):
    return self.down_proj(self.up_proj(x))


LlamaMLP.forward = forward
if LlamaSdpaAttention is not None:
    LlamaSdpaAttention.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.up_proj(x))
