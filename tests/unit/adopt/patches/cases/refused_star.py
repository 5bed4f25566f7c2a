from transformers.models.llama.modeling_llama import *


def forward(self, x):
    return rotate_half(x)


LlamaMLP.forward = forward

# says:
# patch.py:8:1: PG810 assigns to `LlamaMLP.forward`, whose class only the running program knows
#     hint: if it is that class: --apply 'CLASS.forward = forward'
