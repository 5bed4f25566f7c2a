import types

from transformers.models.llama.modeling_llama import LlamaMLP


def cubed(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) ** 3 * self.up_proj(x))


def enable(model):
    for name, module in model.named_modules():
        if not isinstance(module, LlamaMLP):
            continue
        setattr(module, "forward", types.MethodType(cubed, module))

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.act_fn(self.gate_proj(x)) ** 3 * self.up_proj(x))
