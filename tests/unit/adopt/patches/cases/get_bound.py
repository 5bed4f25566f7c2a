from transformers.models.llama.modeling_llama import LlamaMLP


def linear(self, x):
    return self.down_proj(self.gate_proj(x) * self.up_proj(x))


def enable(model):
    for module in model.modules():
        if type(module) is LlamaMLP:
            module.forward = linear.__get__(module)

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.gate_proj(x) * self.up_proj(x))
