def apply():
    import torch
    from transformers.models.llama import modeling_llama

    def squash(x):
        return torch.sigmoid(x)

    def forward(self, x):
        return self.down_proj(squash(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))

    modeling_llama.LlamaMLP.forward = forward
    print("patched")


apply()

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def squash(x):
# +    return torch.sigmoid(x)
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(squash(self.act_fn(self.gate_proj(x)) * self.up_proj(x)))
