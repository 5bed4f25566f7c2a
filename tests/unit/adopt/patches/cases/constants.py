import math

from transformers.models.llama import modeling_llama

SCALE: float = math.pi
SHIFTS = {"a": 0.25}


def shift(x):
    return x + SHIFTS["a"]


def forward(self, x):
    return shift(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))) * SCALE


modeling_llama.LlamaMLP.forward = forward

# says:
# +import math
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +SCALE: float = math.pi
# +
# +
# +SHIFTS = {"a": 0.25}
# +
# +
# +def shift(x):
# +    return x + SHIFTS["a"]
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        return shift(self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))) * SCALE
