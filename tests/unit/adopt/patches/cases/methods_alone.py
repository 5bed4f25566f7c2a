import transformers


def forward(self, x):
    return self.down_proj(self.up_proj(x))


# apply: transformers.models.llama.modeling_llama.LlamaMLP.forward = forward

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.up_proj(x))
