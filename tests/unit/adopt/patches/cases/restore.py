from transformers.models.llama import modeling_llama

_orig = modeling_llama.LlamaMLP.forward


def forward(self, x):
    return self.down_proj(self.up_proj(x))


def patch():
    modeling_llama.LlamaMLP.forward = forward


def unpatch():
    modeling_llama.LlamaMLP.forward = _orig

# says:
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return self.down_proj(self.up_proj(x))
