from transformers.models.llama import modeling_llama


def forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * self.factor


modeling_llama.LlamaMLP.factor = 0.75
modeling_llama.LlamaMLP.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) * self.factor
# +
# +    factor = 0.75
